"""Runs random scenarios for a round or two and says which did not end in tables of finite numbers or in a sentence.

    python -m studies.fuzz_scenarios --count 3000                 # all, in two processes
    python -m studies.fuzz_scenarios --only 1234                  # one of them again, with its traceback
    python -m studies.fuzz_scenarios --count 300 --reduce         # and by which keys each failure comes about

A scenario that ends well is `ok` (tables, all finite), or a `sentence` (a WflsimError, when loading or when running).
Failures are a `traceback`, a `hang` (longer than --limit), a `crash` (the process is gone) and `non-finite` (a number
in a written table is infinite or NaN). Each worker process runs many scenarios, with at most --memory bytes, and is
started anew when it dies or is killed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from studies.fuzz_documents import document, leave_files
from studies.fuzz_workers import Ending, Worker, finite

GOOD = ("ok", "sentence")
FIELDS = ("seed", "kind", "what", "where", "keys")
REPORT_EVERY = 5
"""Of the scenarios that end well, one in so many also has its report made."""


def reduced(data: dict[str, Any], ending: Ending, worker: Worker) -> list[str]:
    """Keys without which the failure does not come about: the others are left out, one after the other."""
    for path in sorted(_paths(data), key=len):
        smaller = json.loads(json.dumps(data))
        node = smaller
        try:
            for part in path[:-1]:
                node = node[part]
            del node[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # its block is gone already
        again = worker.run(smaller)
        if (again.kind, again.where) == (ending.kind, ending.where):
            data = smaller
    return [f"{'.'.join(map(str, path))}={_at(data, path)}" for path in _paths(data) if not _holds_more(data, path)]


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        data = data[part]
    return data


def _holds_more(data: Any, path: tuple[Any, ...]) -> bool:
    return isinstance(_at(data, path), dict | list) and bool(_at(data, path))


def fuzz(seeds: Sequence[int], workers: int, limit_s: float, memory: int, reduce: bool) -> list[dict[str, Any]]:
    """A row for every seed."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(workers) as pool:
        folder = Path(name)
        leave_files(folder)
        lanes = [Worker(folder, limit_s, memory) for _ in range(workers)]

        def lane(number: int) -> list[dict[str, Any]]:
            rows = []
            for seed in seeds[number::workers]:
                data = document(seed, folder)
                ending = lanes[number].run(data, seed % REPORT_EVERY == 0)
                failed = ending.kind not in GOOD
                keys = reduced(data, ending, lanes[number]) if reduce and failed and ending.kind != "hang" else []
                rows.append({"seed": seed, **ending._asdict(), "keys": " ".join(keys)})
                if failed:
                    print(*rows[-1].values(), sep=" | ", flush=True)
            lanes[number].close()
            return rows

        return sorted((row for rows in pool.map(lane, range(workers)) for row in rows), key=lambda row: row["seed"])


def again(seed: int) -> None:
    """One scenario in this process: its document, and its ending with the whole traceback."""
    import yaml

    import wflsim

    with tempfile.TemporaryDirectory() as name:
        leave_files(Path(name))
        data = document(seed, Path(name))
        print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        os.chdir(name)
        os.environ["WFLSIM_STORE"] = f"{name}/store"
        scenario = wflsim.load(data)
        run = wflsim.run if scenario.sweep is None else wflsim.run_sweep
        print(run(scenario, f"{name}/out", workers=1))
        print(finite(Path(name) / "out"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="scenarios")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", type=int, help="run this one here and show its traceback")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds until a scenario counts as hanging")
    parser.add_argument("--memory", type=int, default=3 * 10**9, help="bytes of a worker")
    parser.add_argument("--reduce", action="store_true", help="leave out keys of a failing one while it fails alike")
    parser.add_argument("--out", type=Path, default=Path("fuzz_failures.csv"), help="where the failures are written")
    asked = parser.parse_args()
    if asked.only is not None:
        again(asked.only)
    else:
        seeds = range(asked.first, asked.first + asked.count)
        rows = fuzz(seeds, asked.workers, asked.limit, asked.memory, asked.reduce)
        failures = [row for row in rows if row["kind"] not in GOOD]
        with asked.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(failures)
        print(dict(Counter(row["kind"] for row in rows)), f"failures: {asked.out}")
        sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
