"""Channel traces: SNR measured or simulated elsewhere (Sionna, ns-3, a drive test), read from CSV or NPZ.

CSV: the header `time_s` and one column per client whose name says which (`client_0`, `snr_db_0`, `c0`, `0`), then lines
of the time in seconds and each client's SNR in dB. NPZ: the arrays `time_s` [T] and `snr_db` [T, clients]. Between two
instants the SNR stays; after the last the file starts over. More clients than columns: columns are dealt out in turn.
An SNR of -100 dB or less means no coverage: nothing can be sent.
"""

from __future__ import annotations

import re
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator

from wflsim.errors import ScenarioError
from wflsim.spec import InputFile, Spec
from wflsim.world.channel.rates import Floats

NO_COVERAGE_DB = -100.0
"""At this SNR in dB and below, nothing can be sent."""
LOWEST_DB, HIGHEST_DB = -60.0, 80.0
"""SNRs in dB that a trace may hold: no receiver works below, none is built above, so another unit was meant."""
EXPECTED = (
    "the header must be time_s and then one column per client with its SNR in dB, named client_0, client_1, ... (or "
    "snr_db_0, c0, 0)"
)
"""What the header of a CSV must look like, for error messages."""
COLUMN = re.compile(r"(?:(?:client|ue|user|c|snr|db)[\s_.:-]*)*(\d+)(?:[\s_.:-]*\[?(?:snr|db)\]?)*", re.IGNORECASE)
"""Names of columns that say which client they are of."""
FOREIGN = re.compile(r"bps|bit|rate|throughput|linear|rsr|rssi|dbm|cqi|mcs|gain|loss|power|watt", re.IGNORECASE)
"""Names of columns that hold something else than an SNR in dB."""


class TraceSpec(Spec):
    """A channel trace: the SNR of each client over time, from a file."""

    file: Annotated[InputFile, AfterValidator(lambda file: _checked(file))]
    """CSV or NPZ file with times in seconds and SNRs in dB, as seen from the scenario file."""


class ChannelTrace(NamedTuple):
    """The content of a file: instants, and the SNR of each client from each on."""

    time_s: Floats
    """Instants in seconds, increasing, the first being 0."""
    snr_db: Floats
    """SNR in dB, [instant, client]."""

    @property
    def period_s(self) -> float:
        """Seconds after which the trace starts over: its last line lasts as long as a mean one."""
        return float(self.time_s[-1] + np.diff(self.time_s).mean())

    @property
    def covered(self) -> bool:
        """Whether every client receives something at every instant."""
        return bool((self.snr_db > NO_COVERAGE_DB).all())


class TraceChannel:
    """The channel that a channel trace describes, repeated for ever."""

    steady = False

    def __init__(self, spec: TraceSpec) -> None:
        trace = read_trace(spec.file)
        self._start_s = trace.time_s
        self._period_s = trace.period_s
        self._highest = np.power(10.0, trace.snr_db.max(axis=0) / 10.0)
        self._snr = np.where(trace.snr_db > NO_COVERAGE_DB, np.power(10.0, trace.snr_db / 10.0), 0.0)

    def snr(self, client: int, at_s: Floats) -> Floats:
        row = np.searchsorted(self._start_s, self._within(at_s), side="right") - 1
        return np.asarray(self._snr[row, client % self._snr.shape[1]])

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        rows = len(self._start_s)
        period, row = divmod(start_s, self._period_s)
        first = int(np.searchsorted(self._start_s, row + 1e-9 * self._period_s, side="right"))
        index = first + np.arange(blocks)
        later_s = (period + index // rows) * self._period_s + self._start_s[index % rows]
        return np.concatenate(([start_s], later_s))

    @property
    def step_s(self) -> float:
        """The shortest time in seconds between two changes."""
        return float(np.diff(self._start_s).min())

    def highest_snr(self, client: int) -> float:
        return float(self._highest[client % len(self._highest)])

    def _within(self, at_s: Floats) -> Floats:
        # A change computed as n periods + offset may come out a rounding error before it.
        within = np.mod(at_s, self._period_s) + 1e-9 * self._period_s
        return np.where(within >= self._period_s, 0.0, within)


def describe(file: str) -> str:
    """One line about a channel trace: clients, seconds, sampling, gaps, decibels, and what happens where it ends."""
    trace = read_trace(file)
    steps_s, clients = np.diff(trace.time_s), trace.snr_db.shape[1]
    step_s = float(np.median(steps_s))
    gaps = int((steps_s > 1.5 * step_s).sum())
    there = trace.snr_db > NO_COVERAGE_DB
    decibels = (
        "{:.4g} / {:.4g} / {:.4g} dB (least, median, greatest)".format(
            *np.percentile(trace.snr_db[there], [0, 50, 100])
        )
        if there.any()
        else "no coverage anywhere"
    )
    missing = f", no coverage in {(~there).mean():.2%} of the entries" if there.any() and not there.all() else ""
    return (
        f"radio.trace.file {Path(file).name}: {clients} clients, {trace.time_s[-1]:.6g} s, a line every {step_s:.4g} s "
        f"({gaps or 'no'} gaps, the longest step is {steps_s.max():.4g} s), SNR {decibels}{missing}; after "
        f"{trace.period_s:.6g} s it starts over; more clients than {clients} get its columns in turn"
    )


def _checked(file: str) -> str:
    """The name of a file that can be read; as a finding about the scenario, with its line, if it cannot."""
    try:
        read_trace(file)
    except ScenarioError as error:
        raise ValueError(str(error)) from None
    return file


def read_trace(file: str) -> ChannelTrace:
    """The channel trace in a file, checked; read once per process and version of the file."""
    try:
        stat = Path(file).stat()
    except OSError as error:
        raise ScenarioError(f"cannot read {file}: {error.strerror or error}") from None
    return _read(Path(file), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, changed_ns: int, size: int) -> ChannelTrace:
    try:
        time_s, snr_db = _of_npz(path) if path.suffix == ".npz" else _of_csv(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ScenarioError(
            f"cannot read {path} as a channel trace ({error}); in a CSV {EXPECTED}; an NPZ needs the "
            f"arrays time_s and snr_db"
        ) from None
    if snr_db.ndim != 2 or snr_db.shape[1] == 0 or time_s.shape != snr_db.shape[:1] or len(time_s) < 2:
        raise ScenarioError(
            f"{path} holds {time_s.shape} instants and {snr_db.shape} SNRs; there must be at least "
            f"two instants and a column for at least one client"
        )
    # In a CSV the first line is the header, so that entry 0 stands on line 2.
    place = "entry {}" if path.suffix == ".npz" else "line {}"
    offset = 0 if path.suffix == ".npz" else 2
    back = np.flatnonzero(~(np.diff(time_s) > 0))
    if not np.isfinite(time_s).all() or back.size:
        row = int(np.flatnonzero(~np.isfinite(time_s))[0]) if not np.isfinite(time_s).all() else int(back[0]) + 1
        raise ScenarioError(
            f"{path}, {place.format(row + offset)}: time_s is {time_s[row]:g}; times must be finite "
            f"numbers of seconds, each later than the one before"
        )
    strange = ~((snr_db >= LOWEST_DB) & (snr_db <= HIGHEST_DB) | (snr_db <= NO_COVERAGE_DB))
    if strange.any():
        row, client = (int(index) for index in np.argwhere(strange)[0])
        raise ScenarioError(
            f"{path}, {place.format(row + offset)}: {snr_db[row, client]:g} for client {client} is no SNR in dB; "
            f"allowed: {LOWEST_DB:g} to {HIGHEST_DB:g} dB, or {NO_COVERAGE_DB:g} dB and less for no coverage"
        )
    return ChannelTrace(time_s - time_s[0], snr_db)


def _of_npz(path: Path) -> tuple[Floats, Floats]:
    with np.load(path, allow_pickle=False) as arrays:
        return np.asarray(arrays["time_s"], float), np.asarray(arrays["snr_db"], float)


def _of_csv(path: Path) -> tuple[Floats, Floats]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    names = [name.strip().strip('"') for name in (lines[0] if lines else "").split(",")]
    clients = _clients(path, names)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split(",")
        if not line.strip():
            continue
        try:
            rows.append([float(field) for field in fields])
        except ValueError as error:
            raise ScenarioError(f"{path}, line {number}: {error}; write numbers only") from None
        if len(fields) != len(names):
            raise ScenarioError(
                f"{path}, line {number}: {len(fields)} numbers under a header of {len(names)} columns"
            )
        if len(rows) != number - 1:
            raise ScenarioError(f"{path}, line {number}: there is an empty line before it; remove it")
    table = np.array(rows).reshape(len(rows), len(names))
    order = np.argsort(clients)
    return table[:, 0], table[:, 1:][:, order]


def _clients(path: Path, names: list[str]) -> list[int]:
    """The client of every column but the first, as the header names them."""
    here = f"{path}, line 1"
    if {"client", "snr"} <= {re.sub(r"[\s_(\[]*(db|id)[)\]]*$", "", name.lower()) for name in names}:
        raise ScenarioError(
            f"{here}: one line per time and client ({', '.join(names[:4])}) is not understood; write one line per "
            f"time, with a column for each client: {EXPECTED}"
        )
    if names[0].lower() != "time_s":
        raise ScenarioError(f"{here}: the first column is called {names[0][:40]!r}; {EXPECTED}")
    if foreign := next((name for name in names[1:] if FOREIGN.search(name)), None):
        raise ScenarioError(f"{here}: column {foreign[:40]!r} does not hold an SNR in dB; {EXPECTED}")
    if len(names) == 2 and re.fullmatch(r"(client[\s_]*)?snr([\s_]*\[?db\]?)?", names[1], re.IGNORECASE):
        return [0]
    found = [COLUMN.fullmatch(name) for name in names[1:]]
    if unknown := next((name for name, match in zip(names[1:], found, strict=True) if match is None), None):
        raise ScenarioError(f"{here}: column {unknown[:40]!r} does not say which client it is of; {EXPECTED}")
    clients = [int(match[1]) for match in found if match is not None]
    if sorted(clients) != list(range(len(clients))):
        raise ScenarioError(
            f"{here}: the columns are of clients {', '.join(map(str, clients[:10]))}; there must be one for each "
            f"client from 0 to {len(clients) - 1}"
        )
    return clients
