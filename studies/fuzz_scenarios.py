"""Runs random scenarios for a round or two and says which did not end in tables of finite numbers or in a sentence.

    python studies/fuzz_scenarios.py --count 3000                 # all, in two processes
    python studies/fuzz_scenarios.py --only 1234                  # one of them again, with its traceback
    python studies/fuzz_scenarios.py --count 300 --reduce         # and by which keys each failure comes about

A scenario that ends well is `ok` (tables, all finite), or a `sentence` (a WflsimError, when loading or when running).
Failures are a `traceback`, a `hang` (longer than --limit), a `crash` (the process is gone) and `non-finite` (a number
in a written table is infinite or NaN). Each worker process runs many scenarios, with at most --memory bytes, and is
started anew when it dies or is killed.
"""

from __future__ import annotations

import argparse
import csv
import faulthandler
import json
import os
import re
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from fuzz_documents import document, leave_files

GOOD = ("ok", "sentence")
FIELDS = ("seed", "kind", "what", "where", "keys")
NON_FINITE = re.compile(r"(?<![A-Za-z0-9_])[-+]?(?:inf(?:inity)?|nan)(?![A-Za-z0-9_])", re.IGNORECASE)
REPORT_EVERY = 5
"""Of the scenarios that end well, one in so many also has its report made."""


class Ending(NamedTuple):
    """How one scenario ended."""

    kind: str
    what: str = ""
    """The message, or the exception with the beginning of its message."""
    where: str = ""
    """The innermost line of wflsim in the traceback, or the table and column."""


def run_document(data: dict[str, Any], folder: Path, report: bool) -> Ending:
    """Run a scenario in this process, in a folder that is emptied first."""
    import wflsim
    from wflsim.errors import WflsimError

    shutil.rmtree(folder, ignore_errors=True)
    os.environ["WFLSIM_STORE"] = str(folder / "store")
    try:
        scenario = wflsim.load(data)
        if scenario.sweep is not None:
            failed = wflsim.run_sweep(scenario, folder / "out", workers=1).failures["reason"]
            for reason in failed:
                if re.match(r"[A-Z]\w*: ", reason):  # how a sweep writes down an exception that is not wflsim's own
                    return Ending("traceback", reason[:200], "in a sweep")
        else:
            wflsim.run(scenario, folder / "out", workers=1)
        if report:
            from wflsim.report import build

            build([folder / "out"])
    except WflsimError as error:
        return Ending("sentence", str(error)[:200]) if str(error) else Ending("traceback", type(error).__name__)
    except (Exception, MemoryError) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/wflsim/" in f.filename]
        place = f"{frames[-1].filename.partition('/wflsim/')[2]}:{frames[-1].lineno}" if frames else ""
        return Ending("traceback", f"{type(error).__name__}: {str(error)[:160]}", place)
    return finite(folder / "out")


def finite(folder: Path) -> Ending:
    """Whether every number in the tables and records of a run folder is finite."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".csv", ".json", ".jsonl"):
            continue
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines()):
            if number and path.suffix == ".csv" and NON_FINITE.search(line):
                heads = text.splitlines()[0].split(",")
                bad = [head for head, cell in zip(heads, line.split(","), strict=False) if NON_FINITE.fullmatch(cell)]
                if bad:
                    return Ending("non-finite", line[:160], f"{path.name}: {', '.join(bad)}")
            elif path.suffix != ".csv" and re.search(r"[:,\[] ?-?(?:Infinity|NaN)\b", line):
                return Ending("non-finite", line[:160], path.name)
    return Ending("ok")


def serve(memory: int) -> None:
    """A worker: documents come in as lines of JSON, endings go out likewise."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that a library prints may look like an answer
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            job = json.loads(line)
            # who is killed for taking too long has said before where it was
            faulthandler.dump_traceback_later(0.9 * job["limit_s"])
            ending = run_document(job["document"], Path(folder) / "run", job["report"])
            faulthandler.cancel_dump_traceback_later()
            answers.write(json.dumps(ending) + "\n")
            answers.flush()


class Worker:
    """A process that runs one document after the other; another one takes its place when it ends."""

    def __init__(self, folder: Path, limit_s: float, memory: int) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._memory = memory
        self._process: subprocess.Popen[str] | None = None
        self._stacks: Any = None
        """Where a worker that hangs or crashes leaves its stack."""

    def run(self, data: dict[str, Any], report: bool = False) -> Ending:
        process = self._started()
        stdin, stdout = _pipes(process)
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            try:
                stdin.write(json.dumps({"document": data, "report": report, "limit_s": self._limit_s}) + "\n")
                stdin.flush()
                answered = ready.select(self._limit_s)
            except BrokenPipeError:
                answered = [None]  # type: ignore[list-item]
            line = stdout.readline() if answered else ""
        if line:
            return Ending(*json.loads(line))
        where = self._innermost()
        self.close()
        if answered:
            return Ending("crash", f"exit code {process.returncode}", where)
        return Ending("hang", f"{self._limit_s:g} s", where)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._stacks.close()
            self._process = None

    def _innermost(self) -> str:
        self._stacks.seek(0)
        found = re.findall(r'/wflsim/(\S+)", line (\d+)', self._stacks.read())
        return ":".join(found[0]) if found else ""

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [sys.executable, __file__, "--serve", "--memory", str(self._memory)]
            # where modules are looked for, and quiet: hostile numbers overflow, which is not what is looked for
            environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
            self._stacks = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the worker)
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stacks, text=True,
                cwd=self._folder, env=environment,
            )  # fmt: skip
        return self._process


def _pipes(process: subprocess.Popen[str]) -> tuple[Any, TextIO | Any]:
    return process.stdin, process.stdout


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
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.memory)
    elif asked.only is not None:
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
