"""Worker processes that run random scenarios one after the other, each with limits on time and memory.

    python studies/fuzz_workers.py BYTES     # a worker: documents come in as lines of JSON, endings go out likewise
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NamedTuple

NON_FINITE = re.compile(r"(?<![A-Za-z0-9_])[-+]?(?:inf(?:inity)?|nan)(?![A-Za-z0-9_])", re.IGNORECASE)


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
    import sklearn.datasets  # noqa: F401 (before any clock runs: on a busy machine imports take long)

    import wflsim.experiments.cached
    import wflsim.learning.build
    import wflsim.report  # noqa: F401

    answers.write("ready\n")
    answers.flush()
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            job = json.loads(line)
            # who is killed for taking too long has said before where it was
            faulthandler.dump_traceback_later(0.9 * job["limit_s"])
            signal.alarm(int(2 * job["limit_s"]) + 1)  # the end of one whose parent is gone
            ending = run_document(job["document"], Path(folder) / "run", job["report"])
            faulthandler.cancel_dump_traceback_later()
            signal.alarm(0)
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
        stdin: Any = process.stdin
        stdout: Any = process.stdout
        with selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            try:
                stdin.write(json.dumps({"document": data, "report": report, "limit_s": self._limit_s}) + "\n")
                stdin.flush()
                over = not ready.select(self._limit_s)
            except BrokenPipeError:
                over = False
            line = "" if over else stdout.readline()
        if line:
            return Ending(*json.loads(line))
        where = self._innermost()
        self.close()
        if over:
            return Ending("hang", f"{self._limit_s:g} s", where)
        return Ending("crash", f"exit code {process.returncode}", where)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # closes its pipes, too
            self._stacks.close()
            self._process = None

    def _innermost(self) -> str:
        self._stacks.seek(0)
        found = re.findall(r'/wflsim/(\S+)", line (\d+)', self._stacks.read())
        return ":".join(found[0]) if found else ""

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [sys.executable, __file__, str(self._memory)]
            # where modules are looked for, and quiet: hostile numbers overflow, which is not what is looked for
            environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
            self._stacks = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the worker)
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stacks, text=True,
                cwd=self._folder, env=environment,
            )  # fmt: skip
            ready: Any = self._process.stdout
            ready.readline()
        return self._process


if __name__ == "__main__":
    serve(int(sys.argv[1]))
