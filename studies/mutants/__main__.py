"""`python -m studies.mutants`: draw mutants, try them, write the table.

What is decided is kept in .mutants/verdicts.jsonl and not done twice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from studies.mutants import table
from studies.mutants.cover import Touched, touched
from studies.mutants.draw import PACKAGES, SEED, Mutant, drawn, forgotten, program_digest, reason_of, reasons
from studies.mutants.judge import Judge
from studies.mutants.table import Verdict
from studies.mutants.trial import Copy, import_what_is_slow

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".mutants"
PROOF = ROOT / "reports/proof"
BOUND = 0.85
"""The sample fails if a kill rate of at least this would make its count surprising."""
USUAL_S = 50.0
"""Seconds that a mutant takes on a quiet machine, before any was tried here: five, but all fast tests for a tenth."""
SAMPLE_LOOK_S = 20.0
"""Tests (of a second each, for all the sample knows) that are asked when the one in the table no longer fails."""


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(PACKAGES)}; all if none is named")
    parser.add_argument("--number", type=int, default=60, help="mutants per package")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no mutant later than this")
    parser.add_argument(
        "--sample", action="store_true", help="try again, in turn over packages, what the committed table says"
    )
    parser.add_argument(
        "--look", type=float, default=math.inf, metavar="SECONDS",
        help="a first look: so many seconds of the tests that touch a mutant's line, and not all tests after them",
    )  # fmt: skip
    parser.add_argument("--map", action="store_true", help="measure again which test touches which line")
    asked = parser.parse_args(given)
    if unknown := sorted(set(asked.packages) - set(PACKAGES)):
        parser.error(f"no package is called {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    if lost := forgotten(ROOT):
        parser.error(f"add to PACKAGES in studies/mutants/draw.py: {', '.join(lost)}")
    ends_s = time.monotonic() + 60 * asked.minutes
    packages = asked.packages or list(PACKAGES)
    mutants = {package: drawn(ROOT, package, asked.number) for package in packages}
    STATE.mkdir(exist_ok=True)
    if asked.sample:
        return sample(
            [mutant for turn in zip_longest(*mutants.values()) for mutant in turn if mutant], asked.workers, ends_s
        )
    known = touched(ROOT, STATE, asked.workers, asked.map)
    if known.failed:
        print(f"{len(known.failed)} tests fail on the unchanged code and are not asked: {', '.join(known.failed)}")
    everyone = list(chain.from_iterable(mutants.values()))
    judge_all(everyone, known, asked.workers, ends_s, asked.look)
    verdicts = collect(everyone)
    shown = table.rates(verdicts)
    if len(packages) == len(PACKAGES):
        table.write(PROOF, verdicts, {mutant.key: mutant.diff() for mutant in everyone}, SEED)
    for row in shown:
        print(f"{row['package']:>9}: {row['killed']} of {row['drawn']} killed, {row['survived']} survived, "
              f"{row['equivalent']} equivalent: {row['rate']:.1%} [{row['low']:.1%}, {row['high']:.1%}]")  # fmt: skip
    by_key = {mutant.key: mutant for mutant in everyone}
    for verdict in verdicts:
        if verdict.fate == "survived":
            print(f"\n{verdict.file}:{verdict.line} {verdict.function} ({verdict.operator}) {verdict.by or 'open'}")
            print("\n".join(by_key[verdict.key].diff()))
    if len(verdicts) < len(everyone):
        print(f"\n{len(everyone) - len(verdicts)} not decided yet: run it again")
    return 0


def sample(mutants: list[Mutant], workers: int, ends_s: float) -> int:
    """Fail if the tests kill fewer of a seeded sample than `BOUND`, beyond chance.

    The committed table says which test to ask, so that no map of lines is needed and a mutant costs a few seconds.
    """
    committed = {verdict.key: verdict for verdict in table.read(PROOF / "mutants.csv")}
    by_file: dict[str, dict[int, list[str]]] = {}
    for verdict in committed.values():
        if verdict.fate == "killed" and "::" in verdict.by:
            by_file.setdefault(verdict.file, {}).setdefault(verdict.line, []).append(verdict.by)
    tests = {test for lines in by_file.values() for found in lines.values() for test in found}
    known = Touched(dict.fromkeys(tests, 1.0), by_file, {}, [], frozenset(by_file))
    same = reasons(("equivalent",))
    mutants = [mutant for mutant in mutants if reason_of(mutant, same) is None]
    hopeless = {key for key, verdict in committed.items() if verdict.fate == "survived"}
    tried = [mutant for mutant in mutants if mutant.key in committed and mutant.key not in hopeless]
    log = STATE / "sample.jsonl"
    log.unlink(missing_ok=True)
    _work(tried, known, {key: verdict.by for key, verdict in committed.items()}, workers, ends_s, SAMPLE_LOOK_S, log)
    fates = Counter(record["fate"] for record in _records(log).values())
    # Of those that the table calls survivors, as many as belong to what was tried.
    reached = {record["key"] for record in _records(log).values()}
    last = max((number for number, mutant in enumerate(mutants) if mutant.key in reached), default=-1)
    lost = sum(mutant.key in hopeless for mutant in mutants[: last + 1])
    new = sum(mutant.key not in committed for mutant in mutants)
    killed, total = fates["killed"] + fates["timeout"], sum(fates.values()) + lost
    if total == 0 or new > len(mutants) / 2:
        print(
            f"{new} of {len(mutants)} drawn mutants are not in reports/proof/mutants.csv: "
            "run `make mutants` and commit the table"
        )
        return 1
    low, high = table.interval(killed, total)
    print(
        f"{killed} of {total} mutants killed: {killed / total:.1%} [{low:.1%}, {high:.1%}]; "
        f"{new} drawn ones are not in the table yet"
    )
    for record in _records(log).values():
        if record["fate"] == "survived":
            print(f"no longer killed: {record['where']} ({committed[record['key']].by} used to fail)")
    if high < BOUND:
        print(f"fewer than {BOUND:.0%} of errors in the source make a test fail, and that is no chance")
    return int(high < BOUND)


def judge_all(mutants: list[Mutant], known: Touched, workers: int, ends_s: float, look_s: float) -> None:
    """Try what is not decided."""
    log = STATE / "verdicts.jsonl"
    before, tree = _records(log), _tree()
    equal = reasons(("equivalent",))
    open_ = [
        mutant for mutant in mutants
        if reason_of(mutant, equal) is None and not _still_holds(before.get(mutant.key), mutant, tree, look_s)
    ]  # fmt: skip
    print(f"{len(mutants)} mutants, {len(mutants) - len(open_)} decided before", flush=True)
    if open_:
        print(f"about {_minutes(before.values(), len(open_), workers)}", flush=True)
    _work(open_, known, {key: record["by"] for key, record in before.items()}, workers, ends_s, look_s, log)


def _minutes(tried: Iterable[dict[str, Any]], left: int, workers: int) -> str:
    """The time that so many mutants will take, by the mean of those tried before (USUAL_S each as long as none was)."""
    seconds = [float(record["seconds"]) for record in tried]
    mean_s = sum(seconds) / len(seconds) if seconds else USUAL_S
    return f"{left * mean_s / workers / 60:.0f} min for {left} mutants with {workers} workers ({mean_s:.1f} s each)"


def _work(
    mutants: list[Mutant],
    known: Touched,
    hints: dict[str, str],
    workers: int,
    ends_s: float,
    look_s: float,
    log: Path,
) -> None:
    """Fork workers that take one mutant after the other and append a line each."""
    import_what_is_slow()
    context = multiprocessing.get_context("fork")
    turn, spent_s = context.Value("i", 0), context.Value("d", 0.0)
    tree = _tree()

    def work() -> None:
        judge = Judge(Copy(ROOT), known, look_s=look_s)
        try:
            while time.monotonic() < ends_s:
                with turn.get_lock():
                    number, turn.value = turn.value, turn.value + 1
                if number >= len(mutants):
                    return
                mutant, began_s = mutants[number], time.monotonic()
                hint = hints.get(mutant.key, "")
                fate, by, message = judge.fate(mutant, hint if "::" in hint else "")
                change = mutant.mutation
                record = {
                    "key": mutant.key, "digest": mutant.digest, "tree": tree, "fate": fate, "by": by,
                    "by_digest": _digest(by), "look_s": look_s, "message": message,
                    "seconds": round(time.monotonic() - began_s, 1),
                    "where": f"{mutant.file}:{change.line} {change.function}",
                    "change": f"{change.operator}: {change.before} -> {change.after}",
                }  # fmt: skip
                with log.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(record) + "\n")
                spent_s.value += record["seconds"]
                left_s = spent_s.value / (number + 1) * (len(mutants) - number - 1) / workers
                print(f"{number + 1}/{len(mutants)} {fate:8} {record['seconds']:6.1f} s {record['where']} "
                      f"{record['change'][:90]!r} {by} (ETA {left_s / 60:.0f} min)", flush=True)  # fmt: skip
        finally:
            judge.copy.remove()

    processes = [context.Process(target=work) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def collect(mutants: list[Mutant]) -> list[Verdict]:
    """The fates of these mutants as far as they are decided."""
    records, equal, why = _records(STATE / "verdicts.jsonl"), reasons(("equivalent",)), reasons(("survivor",))
    found = []
    for mutant in mutants:
        change, record = mutant.mutation, records.get(mutant.key)
        same = reason_of(mutant, equal)
        if same is not None:
            fate, by = "equivalent", same
        elif record is not None and record["digest"] == mutant.digest:
            fate, by = record["fate"], record["by"]
            if fate == "survived":
                by = reason_of(mutant, why) or ""
        else:
            continue
        found.append(Verdict(mutant.package, mutant.file, change.line, change.function, change.operator, change.before,
                             change.after, fate, by, mutant.key))  # fmt: skip
    return found


def _still_holds(record: dict[str, Any] | None, mutant: Mutant, tree: str, look_s: float) -> bool:
    """Whether a verdict can be kept.

    A killing holds while the changed file and the test are the same, a survival only while nothing at all has changed.
    """
    if record is None or record["digest"] != mutant.digest:
        return False
    if record["fate"] != "survived":
        return bool(record["by_digest"] == _digest(record["by"]))
    return bool(record["tree"] == tree and record["look_s"] >= look_s)


def _records(path: Path) -> dict[str, dict[str, Any]]:
    """The last line about each mutant."""
    if not path.exists():
        return {}
    return {
        record["key"]: record for line in path.read_text(encoding="utf-8").splitlines() if (record := json.loads(line))
    }


def _digest(test: str) -> str:
    """Digest of the file that a test stands in, as a program."""
    path = ROOT / test.split("::")[0]
    return program_digest(path.read_bytes()) if path.is_file() else ""


def _tree() -> str:
    """Of all source and tests."""
    whole = hashlib.sha256()
    for path in sorted(chain((ROOT / "wflsim").rglob("*.py"), (ROOT / "tests").rglob("*.py"))):
        whole.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
