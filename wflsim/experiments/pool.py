"""The pool in which runs are computed: this process, local processes, or a Ray cluster. Results do not depend on it.

A pool applies one function to many items and yields (position of the item, answer or exception) as they end, in any
order. A worker that dies takes only its own item with it, and that item comes back as an exception like any other. When
the process that started local workers is itself killed, they notice it and end.
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
from typing import Any, Protocol, TypeAlias, TypeVar

from wflsim.errors import ScenarioError, WflsimError
from wflsim.files import Busy

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Answers: TypeAlias = Iterator[tuple[int, Answer | Exception]]
"""(position of the item, answer or exception), in the order in which they end."""
POOLS = ("local", "ray")
ATTEMPTS = 2
PARENT_CHECK_S = 0.5
"""Seconds between two checks of a worker whether the process that started it is still there."""


class Died(WflsimError):
    """The process that computed the item is gone."""


class Pool(Protocol):
    """Computes a function of many items."""

    def run(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> Answers[Answer]:
        """Apply the function to every item."""

    def close(self) -> None:
        """End the workers: nothing more will be asked."""


class ThisProcess:
    """Computes one item after the other in this process."""

    def run(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> Answers[Answer]:
        for number, item in enumerate(items):
            try:
                answer: Answer | Exception = function(item)
            except Exception as error:
                answer = error
            yield number, answer

    def close(self) -> None:
        return None


class Processes:
    """Computes in local processes, each with an executor of its own: a shared one breaks as a whole when one dies."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._idle: list[Any] = []
        """Executors between two calls: a process that has imported torch is worth keeping."""

    def run(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> Answers[Answer]:
        # Imported before the threads start: two that import loky at once can find it half initialised.
        importlib.import_module("loky.process_executor")
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        for number in range(len(items)):
            waiting.put(number)
        over = threading.Event()
        feeders = [
            threading.Thread(target=self._feed, args=(function, items, waiting, ended, over), daemon=True)
            for _ in range(min(self._workers, len(items)))
        ]
        for feeder in feeders:
            feeder.start()
        try:
            for _ in items:
                yield ended.get()
        finally:
            over.set()
            for feeder in feeders:
                feeder.join()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().shutdown(wait=False, kill_workers=True)

    def _feed(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        waiting: queue.SimpleQueue[int],
        ended: queue.SimpleQueue[tuple[int, Any]],
        over: threading.Event,
    ) -> None:
        """In a thread: hand waiting items to one worker process, one after the other, until none is left."""
        executor = self._idle.pop() if self._idle else _start_worker()
        while not over.is_set():
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                self._idle.append(executor)
                return
            answer = _ask(executor, function, items[number], over)
            if isinstance(answer, Died):
                executor.shutdown(wait=False, kill_workers=True)
                executor = _start_worker()
            ended.put((number, answer))
        executor.shutdown(wait=False, kill_workers=True)


def _start_worker() -> Any:
    """An executor of one process, started when it is first asked for something."""
    from loky import ProcessPoolExecutor

    return ProcessPoolExecutor(1, initializer=_follow_parent, initargs=(os.getpid(),))


def _follow_parent(parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and end when the parent is gone, however it ended.

    A thread that asks for the parent's id works on every system. Linux could send a signal instead, but it would do so
    when the thread that started the worker ends, which is long before the parent does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _ask(executor: Any, function: Callable[[Any], Any], item: Any, over: threading.Event) -> Any:
    """The worker's answer or exception; None if nobody wants to know any more."""
    from loky.process_executor import BrokenProcessPool

    died = Died("the process that computed it died (killed, or out of memory)")
    try:
        future = executor.submit(function, item)
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
    """Computes on an existing Ray cluster, by Ray's own tasks: joblib's Ray backend cannot stream answers."""

    def __init__(self, address: str = "auto") -> None:
        try:
            import ray
        except ImportError:
            raise WflsimError("--pool ray needs Ray: pip install 'wflsim[ray]'") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            try:
                ray.init(address=address, log_to_driver=False)
            except ConnectionError as error:
                raise WflsimError(
                    f"--pool ray found no running cluster ({error}); start one with `ray start --head`, or name it "
                    f"in RAY_ADDRESS"
                ) from None

    def run(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> Answers[Answer]:
        ray = self._ray
        settings = {name: value for name, value in os.environ.items() if name.startswith("WFLSIM_")}

        def compute(item: Item) -> Answer:
            os.environ.update(settings)  # a local process inherits them: where the data sets are, for one
            return function(item)

        remote = ray.remote(num_cpus=1, max_retries=0)(compute)
        numbers = {remote.remote(item): number for number, item in enumerate(items)}
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
def open_pool(name: str, workers: int) -> Iterator[Pool]:
    """The pool of this name ("local" or "ray") until the block ends. `workers`: local processes."""
    if name not in POOLS:
        raise ScenarioError(f"pool: got {name!r}. Allowed: {', '.join(POOLS)}")
    pool: Pool = Ray() if name == "ray" else Processes(workers) if workers > 1 else ThisProcess()
    try:
        yield pool
    finally:
        pool.close()


class _Attempt:
    """The function of one attempt: waits for what other processes have under way, or gives it up as `Busy`."""

    def __init__(self, function: Callable[[Any, bool], Any], wait: bool) -> None:
        self._function, self._wait = function, wait

    def __call__(self, item: Any) -> Any:
        return self._function(item, self._wait)


def persist(
    pool: Pool,
    function: Callable[[Item, bool], Answer],
    items: Sequence[Item],
    failed: Callable[[Answer | Exception], bool] = lambda answer: isinstance(answer, Exception),
) -> Answers[Answer]:
    """Compute `function(item, wait)` of every item, as `Pool.run` does. One that failed is tried once more, last.

    In the first attempt nobody waits for other processes (`wait` is false); `Busy` counts as no attempt.
    """
    left = dict.fromkeys(range(len(items)), ATTEMPTS)
    wait_for_others = False
    while left:
        turn = list(left)
        for position, answer in pool.run(_Attempt(function, wait_for_others), [items[number] for number in turn]):
            number = turn[position]
            left[number] -= not isinstance(answer, Busy)
            if not failed(answer) or not left[number]:
                del left[number]
                yield number, answer
        wait_for_others = True


def in_words(error: Exception) -> str:
    """An exception as one sentence: our own as they are, others with their kind and the line they come from."""
    if isinstance(error, WflsimError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
