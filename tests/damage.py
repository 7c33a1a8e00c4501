"""Ways to damage a file, and folders of every kind to damage: run, interrupted run, sweep, tune, and their store."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
from small_scenarios import SMALL

import wflsim
from wflsim.errors import WflsimError
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.compare import compare
from wflsim.experiments.sweep import run_sweep
from wflsim.report import build as build_report
from wflsim.report.compose import gather
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.simulation import checkpoint
from wflsim.tune.folder import tune

ROUNDS = 3


def empty(path, rng):
    path.write_bytes(b"")


def cut(path, rng):
    body = path.read_bytes()
    path.write_bytes(body[: len(body) // 2])


def flipped(path, rng):
    """One digit becomes its neighbour, the damage that no parser sees; in a binary file, any byte."""
    body = bytearray(path.read_bytes())
    digits = [i for i, byte in enumerate(body) if chr(byte).isdecimal()] or range(len(body))
    if body:
        body[rng.choice(digits)] ^= 1
    path.write_bytes(body)


def noise(path, rng):
    path.write_bytes(rng.randbytes(max(64, path.stat().st_size)))


def deleted(path, rng):
    path.unlink()


def directory(path, rng):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


DAMAGES = (empty, cut, flipped, noise, deleted, directory)


def small(*overrides):
    return build(parse(SMALL, "small.yaml"), (f"stop={{rounds: {ROUNDS}, target: {{accuracy: 0.2}}, at_target: false}}", *overrides))


RUN = small()
CUT = small("radio.loss.probability=0.2")
"""Live, so that nothing but its own folder can help it."""
SWEEP = small("sweep={grid: {radio.snr: [0 dB, 10 dB]}}")
TUNE = small("tune={knobs: {tau: [2, 3]}}")
LONGER = small("stop.rounds=5")
"""Begins with what the store knows of RUN and goes on from its checkpoint."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C at a chosen instant."""


def make_all(base: Path) -> None:
    """One folder of each kind, and the store they share."""
    os.environ["WFLSIM_STORE"] = str(base / "store")
    wflsim.run(RUN, base / "run", workers=1)
    run_sweep(SWEEP, base / "sweep", workers=1)
    tune(TUNE, base / "tune", workers=1)
    remember, interval_s = CachedTraining.remember, checkpoint.INTERVAL_S

    def fatal(self, entry):
        remember(self, entry)
        if entry.round == 1 and self._policy.name == "drdm":
            raise Stopped

    CachedTraining.remember, checkpoint.INTERVAL_S = fatal, 0.0
    try:
        wflsim.run(CUT, base / "cut", workers=1)
    except Stopped:
        pass
    finally:
        CachedTraining.remember, checkpoint.INTERVAL_S = remember, interval_s
    assert (base / "cut/drdm/seed-0/checkpoint.pt").exists()


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All results of a folder: tables, traces and answers. Wall times and versions are not among them."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.suffix in (".csv", ".jsonl", ".txt") and path.is_file()
    }  # fmt: skip


def again(name, base, out=None):
    """The same command once more. Returns the bytes of the folder."""
    folder = base / (out or name)
    if name in ("run", "cut", "longer"):
        wflsim.run({"run": RUN, "cut": CUT, "longer": LONGER}[name], folder, workers=1)
    elif name == "sweep":
        run_sweep(SWEEP, folder, workers=1)
    else:
        tune(TUNE, folder, workers=1)
    return bytes_of(folder)


def frames(folder):
    held = wflsim.Results(folder)
    return [frame.to_csv() for frame in (held.rounds, held.clients, held.legs, held.runs, held.summary, held.world, held.status.drop(columns="mode"))] + [str(held.test_samples)]


def joined(folder):
    found = compare([folder])
    return [found.lines.to_csv(), found.pairs.to_csv(), [note.partition(": ")[2] for note in found.notes]]


def page(folder):
    """What a report shows of each run, regime or choice, a line each, and what it says is missing."""
    held = gather([folder])
    lines = set()
    for each in held.runs:
        lines |= set(each.runs.drop(columns="reached").to_csv(index=False).splitlines())
    for each in held.stories.values():
        lines |= set(pd.DataFrame(each.world).to_csv(index=False).splitlines())
    for _, sweep in held.sweeps:
        lines |= set(sweep.summary.to_csv(index=False).splitlines())
    for _, found in held.tunes:
        for frame in (found.map, found.costs, found.curves):
            lines |= set() if frame is None else set(frame.to_csv(index=False).splitlines())
    build_report([folder], folder / "report.html")
    return lines, [*held.missing, *(line for each in held.folders for line in each.missing)]


def attempt(action, *arguments):
    """What it returns, or its sentence. Any other exception is a defect and goes through."""
    try:
        return action(*arguments)
    except WflsimError as error:
        words = str(error)
    assert words.strip(), "an error without words"
    assert "Traceback" not in words
    return words

