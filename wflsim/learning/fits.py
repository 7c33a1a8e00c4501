"""Whether what a scenario asks for fits into the memory of this machine: refused in words, before it is tried.

Linux promises memory it does not have and kills who uses it, so an allocation that succeeds proves nothing: sizes are
computed first. What is not foreseen and fails after all becomes a sentence as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from math import inf
from pathlib import Path

from wflsim.errors import ScenarioError

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
ALLOCATION_FAILED = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation")
"""How torch says it, in a RuntimeError like any other."""


COMPILER_BYTES = 150e6
"""Room for torch's compiler, 823 modules and 76 MB when it was measured."""


def free_bytes() -> float:
    """Bytes that this process may use at most: the machine's or its container's, less where `ulimit -v` says so."""
    return min(_machine_bytes(), _address_space_left())


@cache
def _machine_bytes() -> float:
    try:
        known: list[float] = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return inf
    for file in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            known.append(int(Path(file).read_text()))
    return min(known)


def _address_space_left() -> float:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return inf
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0.0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, OSError, ValueError):
        return inf


def refuse_unless_it_fits(needed_bytes: float, what: str, cure: str) -> None:
    """Raise a ScenarioError that says how many bytes `what` needs and what to change, unless there are so many."""
    free = free_bytes()
    if needed_bytes > free:
        raise ScenarioError(
            f"{what} needs {in_bytes(needed_bytes)} of memory, and this process may use {in_bytes(free)}; {cure}"
        )


def refuse_without_room_for_the_compiler(who: str, cure: str) -> None:
    """For who makes torch import its compiler: if memory ends in the middle of that, Python itself crashes."""
    if "torch._dynamo" in sys.modules:
        return
    refuse_unless_it_fits(COMPILER_BYTES, f"torch's compiler, which {who} loads,", cure)


@contextmanager
def failures_in_words(doing: str, cure: str) -> Iterator[None]:
    """Turn a failed allocation, numpy's or torch's, into a ScenarioError."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        lines = str(error).splitlines() or [""]
        if isinstance(error, MemoryError) or any(words in str(error) for words in ALLOCATION_FAILED):
            raise ScenarioError(f"not enough memory while {doing} ({lines[0][:200]}); {cure}") from error
        raise


def in_bytes(count: float) -> str:
    """A number of bytes with a decimal prefix, such as 31.4 GB."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if count < 1000:
            return f"{count:.3g} {prefix}B"
        count /= 1000
    return f"{count:.3g} EB"
