"""Where tasks run: here, in local processes, or on a Ray cluster. One seam, so that results cannot depend on it.

An engine takes tasks and yields (task number, result or exception) as they end, in any order. A process that dies takes
only its own task with it, and that task comes back as an exception like any other. When the process that started the
workers is itself killed, they notice it and end.
"""

from __future__ import annotations

import importlib
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from wflsim.errors import WflsimError

Job = TypeVar("Job")
Answer = TypeVar("Answer")
ATTEMPTS = 2
WATCH_S = 0.5
"""How often a worker looks whether the process that started it is still there."""


class Died(WflsimError):
    """The process that had the task is gone."""


class Engine(Protocol):
    """Runs `function` on every job."""

    def run(self, function: Callable[[Job], Answer], jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | Exception]]:
        """(position of the job, answer or exception), as they come."""

    def close(self) -> None:
        """Nothing more will be asked."""


class Here:
    """One after the other in this process."""

    def run(self, function: Callable[[Job], Answer], jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | Exception]]:
        for number, job in enumerate(jobs):
            try:
                answer: Answer | Exception = function(job)
            except Exception as error:
                answer = error
            yield number, answer

    def close(self) -> None:
        return None


class Processes:
    """Local processes, each with an executor of its own: a pool shared by all breaks as a whole when one dies."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._idle: list[Any] = []
        """Executors between two calls: a process that has imported torch is worth keeping."""

    def run(self, function: Callable[[Job], Answer], jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | Exception]]:
        # Imported before the lanes start: two threads that import joblib at once can find it half initialised.
        importlib.import_module("joblib.externals.loky")
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        for number in range(len(jobs)):
            waiting.put(number)
        over = threading.Event()
        lanes = [
            threading.Thread(target=self._lane, args=(function, jobs, waiting, ended, over), daemon=True)
            for _ in range(min(self._workers, len(jobs)))
        ]
        for lane in lanes:
            lane.start()
        try:
            for _ in jobs:
                yield ended.get()
        finally:
            over.set()
            for lane in lanes:
                lane.join()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().shutdown(wait=False, kill_workers=True)

    def _lane(
        self,
        function: Callable[[Any], Any],
        jobs: Sequence[Any],
        waiting: queue.SimpleQueue[int],
        ended: queue.SimpleQueue[tuple[int, Any]],
        over: threading.Event,
    ) -> None:
        """One process and the thread that feeds it."""
        executor = self._idle.pop() if self._idle else _worker()
        while not over.is_set():
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                self._idle.append(executor)
                return
            answer = _answer(executor, function, jobs[number], over)
            if isinstance(answer, Died):
                executor.shutdown(wait=False, kill_workers=True)
                executor = _worker()
            ended.put((number, answer))
        executor.shutdown(wait=False, kill_workers=True)


def _worker() -> Any:
    """An executor of one process, started when it is first asked for something."""
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(1, initializer=_follow, initargs=(os.getpid(),))


def _follow(parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and end when the parent is gone, however it ended.

    A thread that asks for the parent's id works on every system. Linux could send a signal instead, but it would do so
    when the thread that started the worker ends, which is long before the parent does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _answer(executor: Any, function: Callable[[Any], Any], job: Any, over: threading.Event) -> Any:
    """What came of the job, unless nobody wants to know any more."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    died = Died("the process that computed it died (killed, or out of memory)")
    try:
        future = executor.submit(function, job)
    except BrokenProcessPool:  # it died while it had nothing to do
        return died
    while not over.is_set():
        finished, _ = wait([future], timeout=0.2)
        if finished:
            error = future.exception()
            if error is None:
                return future.result()
            return error if isinstance(error, Exception) and not isinstance(error, BrokenProcessPool) else died
    return None


class Ray:
    """An existing Ray cluster. joblib's Ray backend cannot stream results, so tasks are used directly."""

    def __init__(self, address: str = "auto") -> None:
        try:
            import ray
        except ImportError:
            raise WflsimError("--engine ray needs Ray: pip install 'wflsim[ray]'") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False)
            except ConnectionError as error:
                raise WflsimError(
                    f"--engine ray found no running cluster ({error}); start one with `ray start --head`, or name it "
                    f"in RAY_ADDRESS"
                ) from None

    def run(self, function: Callable[[Job], Answer], jobs: Sequence[Job]) -> Iterator[tuple[int, Answer | Exception]]:
        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=0)(function)
        numbers = {remote.remote(job): number for number, job in enumerate(jobs)}
        pending = list(numbers)
        try:
            while pending:
                ready, pending = ray.wait(pending)
                for reference in ready:
                    yield numbers[reference], self._answer(reference)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def close(self) -> None:
        return None  # the cluster was there before, and stays

    def _answer(self, reference: Any) -> Any:
        ray = self._ray
        try:
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            return error.cause if isinstance(error.cause, Exception) else error
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.RayError) as error:
            return Died(f"the Ray worker that computed it died: {type(error).__name__}")


@contextmanager
def engine(name: str, workers: int) -> Iterator[Engine]:
    """By the name on the command line."""
    runner: Engine = Ray() if name == "ray" else Processes(workers) if workers > 1 else Here()
    try:
        yield runner
    finally:
        runner.close()


def persist(
    runner: Engine, function: Callable[[Job], Answer], jobs: Sequence[Job]
) -> Iterator[tuple[int, Answer | Exception]]:
    """Run every job; one that fails is tried once more when all others have had their turn, then is an exception."""
    left = list(range(len(jobs)))
    for attempt in range(1, ATTEMPTS + 1):
        failed = []
        for position, answer in runner.run(function, [jobs[number] for number in left]):
            if isinstance(answer, Exception) and attempt < ATTEMPTS:
                failed.append(left[position])
            else:
                yield left[position], answer
        left = failed


def in_words(error: Exception) -> str:
    """An exception as one sentence: our own as they are, others with their kind and the line they come from."""
    if isinstance(error, WflsimError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
