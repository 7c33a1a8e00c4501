"""SNR measured or simulated elsewhere (Sionna, ns-3, a drive test), read from CSV or NPZ.

CSV: a header, then lines of `time_s` and one SNR in dB per client. NPZ: `time_s` [T] and `snr_db` [T, clients]. Between
two instants the SNR stays; after the last it starts over. More clients than columns: columns are dealt out in turn.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from wflsim.errors import ScenarioError
from wflsim.units import InputFile, Spec
from wflsim.world.rates import Floats


class TraceSpec(Spec):
    """Where the file is, as seen from the scenario file."""

    file: InputFile


class TraceSky:
    """SNR as the file says."""

    steady = False

    def __init__(self, spec: TraceSpec) -> None:
        time_s, snr_db = _read(Path(spec.file))
        self._start_s = time_s - time_s[0]
        self._period_s = float(self._start_s[-1] + np.diff(time_s).mean())
        self._snr = np.power(10.0, snr_db / 10.0)

    def snr(self, client: int, at_s: Floats) -> Floats:
        row = np.searchsorted(self._start_s, self._within(at_s), side="right") - 1
        return np.asarray(self._snr[row, client % self._snr.shape[1]])

    def edges(self, start_s: float, blocks: int) -> Floats:
        rows = len(self._start_s)
        period, row = divmod(start_s, self._period_s)
        first = int(np.searchsorted(self._start_s, row + 1e-9 * self._period_s, side="right"))
        index = first + np.arange(blocks)
        later_s = (period + index // rows) * self._period_s + self._start_s[index % rows]
        return np.concatenate(([start_s], later_s))

    @property
    def step_s(self) -> float:
        """The shortest time between two changes."""
        return float(np.diff(self._start_s).min())

    def _within(self, at_s: Floats) -> Floats:
        # An edge computed as n periods + offset may come out a hair before it.
        within = np.mod(at_s, self._period_s) + 1e-9 * self._period_s
        return np.where(within >= self._period_s, 0.0, within)


def _read(path: Path) -> tuple[Floats, Floats]:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                time_s, snr_db = np.asarray(arrays["time_s"], float), np.asarray(arrays["snr_db"], float)
        else:
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            table = np.array([[float(field) for field in line.split(",")] for line in lines if line.strip()])
            time_s, snr_db = table[:, 0], table[:, 1:]
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        raise ScenarioError(
            f"radio.trace.file: cannot read {path} as an SNR trace ({error}); "
            "a CSV needs a header and lines of time_s and one SNR in dB per client, an NPZ the arrays time_s and snr_db"
        ) from error
    if snr_db.ndim != 2 or snr_db.shape[1] == 0 or len(time_s) != len(snr_db) or len(time_s) < 2:
        raise ScenarioError(
            f"radio.trace.file: {path} holds {time_s.shape} instants and {snr_db.shape} SNRs; "
            "there must be at least two instants and a column for at least one client"
        )
    if not (np.isfinite(time_s).all() and np.isfinite(snr_db).all() and (np.diff(time_s) > 0).all()):
        raise ScenarioError(f"radio.trace.file: {path} must hold finite numbers, with increasing time_s")
    return time_s, snr_db
