"""What a policy must not do, said in one message with its own file and line.

Built-in policies are held to the same rules by tests. One of a user's own meets them here, while it runs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import isgenerator
from typing import Any

import numpy as np
import torch

from wflsim.door import origin_of
from wflsim.errors import PolicyError, WflsimError
from wflsim.exchange import Request
from wflsim.imports import said, where
from wflsim.policies.base import Policy, Rng

MOST_REQUESTS = 1000
"""Requests of one round of a policy that waits for its clients; none needs more than a handful."""
MOST_WHILE_BUSY = 1_000_000
"""Requests of one round of an asynchronous policy."""
PATIENCE_S = 600.0
"""Wall-clock seconds for which the server half of a user's policy may compute between two requests."""
PLAIN = (torch.Tensor, np.ndarray, bool, int, float, str, type(None))


def called(policy: Policy) -> str:
    """The policy in a message: its name; one of a user's own with its file and line."""
    origin = origin_of(policy)
    return f"policy {policy.name}" if origin is None else f"{origin.file}:{origin.line}: policy {type(policy).__name__}"


def place(code: Any) -> str:
    """`file:line` of a function, of a method, or of where a generator stands."""
    while isinstance(code, partial):
        code = code.func
    while isgenerator(code):
        inner, frame = code.gi_yieldfrom, code.gi_frame
        if not isgenerator(inner) or inner.gi_frame is None:
            line = code.gi_code.co_firstlineno if frame is None else frame.f_lineno
            return f"{code.gi_code.co_filename}:{line}"
        code = inner
    written = getattr(code, "__code__", None)
    return f"{written.co_filename}:{written.co_firstlineno}" if written else repr(code)


@contextmanager
def blamed(policy: Policy, doing: str, at: Callable[[], Any]) -> Iterator[None]:
    """Make one message of whatever a user's policy raises; `at`: the code to name where no line of its own is in it."""
    try:
        yield
    except WflsimError:
        raise
    except Exception as error:
        origin = origin_of(policy)
        if origin is None:  # ours have tests; a traceback tells more
            raise
        raise PolicyError(f"{where(error, origin.files) or place(at())}: in {doing}: {said(error)}") from error


class NeverEnds(Exception):
    """Raised inside a policy that computes for ever."""

    def __str__(self) -> str:
        return f"the server half has computed for {PATIENCE_S:g} s without a request; let it ask or return the state"


@contextmanager
def limited(policy: Policy) -> Iterator[None]:
    """Interrupt a user's policy that computes for ever: an exception is raised where it stands."""
    if origin_of(policy) is None:
        yield
        return
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread = ctypes.c_ulong(threading.get_ident())
    timer = threading.Timer(PATIENCE_S, raise_in, (thread, ctypes.py_object(NeverEnds)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def begin(policy: Policy, state: Any, s: int, rng: Rng) -> Generator[Request, Any, Any]:
    """The generator of round s."""
    flow = policy.round(state, s, rng)
    if not isinstance(flow, Generator):
        raise PolicyError(
            f"{place(policy.round)}: round asks nobody: it has no `yield`; write got = yield Gather([Ask(...)])"
        )
    return flow


def check_request(policy: Policy, flow: Generator[Any, Any, Any], request: Any, count: int) -> None:
    """Refuse what is no request, and a round that goes on for ever."""
    if not isinstance(request, Request):
        raise PolicyError(
            f"{place(flow)}: round yields {type(request).__name__}, which is no request; "
            f"yield {', '.join(kind.__name__ for kind in Request.__args__)}"
        )
    most = MOST_WHILE_BUSY if policy.asynchronous else MOST_REQUESTS
    if count > most:
        raise PolicyError(f"{place(flow)}: the round does not end: {most} requests so far; let it return the state")


def check_asked(policy: Policy, s: int, asked: int) -> None:
    """Refuse a round that asked no client for anything."""
    if not asked:
        raise PolicyError(
            f"{place(policy.round)}: round {s} ended without asking any client; write got = yield Gather([Ask(...)])"
        )


def check_state(policy: Policy, state: Any, before: Any = None) -> None:
    """Refuse a state that could not be saved, or that does not go with the one before it."""
    at = place(policy.start if before is None else policy.round)
    gave = "start returned" if before is None else "round returned"
    if not is_dataclass(state) or isinstance(state, type):
        raise PolicyError(f"{at}: {gave} {type(state).__name__}; the state is a dataclass of tensors and numbers")
    if before is not None and type(state) is not type(before):
        raise PolicyError(f"{at}: {gave} {type(state).__name__}; it must be a {type(before).__name__}, like start's")
    for field in fields(state):
        held = getattr(state, field.name)
        if not _plain(held):
            raise PolicyError(
                f"{at}: {field.name} of the state is of type {type(held).__name__}, which a checkpoint cannot hold; "
                f"use tensors, arrays, numbers, text, and lists, tuples or dicts of them"
            )
    w, earlier = getattr(state, "w", None), getattr(before, "w", None)
    if not isinstance(earlier, torch.Tensor) or earlier.ndim > 1:  # a model for each cluster, say
        return
    if getattr(w, "shape", None) != earlier.shape:
        shape = tuple(w.shape) if isinstance(w, torch.Tensor) else type(w).__name__
        raise PolicyError(f"{at}: round returned w of shape {shape}; the model's is {tuple(earlier.shape)}")


def _plain(held: Any) -> bool:
    if isinstance(held, list | tuple):
        return all(map(_plain, held))
    if isinstance(held, dict):
        return all(map(_plain, held)) and all(map(_plain, held.values()))
    return isinstance(held, PLAIN)
