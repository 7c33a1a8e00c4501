"""The memory of this machine: refuses what does not fit before it is tried, and keeps freed memory for the next step.

Linux promises memory that it does not have and kills the process that uses it, so a successful allocation proves
nothing: sizes are computed first. An allocation that fails all the same becomes an error message as well.
"""

from __future__ import annotations

import ctypes
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
"""Texts by which a RuntimeError of torch is recognised as a failed allocation."""
COMPILER_BYTES = 150e6
"""Memory to have free before torch's compiler is imported: 823 modules and 76 MB when it was measured."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h


def free_bytes() -> float:
    """Bytes that this process may use at most: the machine's or its container's, or fewer if `ulimit -v` is set."""
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
    """Raise a ScenarioError that says how many bytes `what` needs, unless there are so many; `cure`: what to change."""
    free = free_bytes()
    if needed_bytes > free:
        needs, has = format_bytes(needed_bytes), format_bytes(free)
        raise ScenarioError(f"{what} needs {needs} of memory, and this process may use {has}; {cure}")


def refuse_without_room_for_the_compiler(who: str, cure: str) -> None:
    """Raise a ScenarioError if `who`, which makes torch import its compiler, would crash Python for want of memory."""
    if "torch._dynamo" in sys.modules:
        return
    refuse_unless_it_fits(COMPILER_BYTES, f"torch's compiler, which {who} loads,", cure)


@contextmanager
def memory_errors_in_words(doing: str, cure: str) -> Iterator[None]:
    """Turn a failed allocation of numpy or torch in the block into a ScenarioError."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        lines = str(error).splitlines() or [""]
        if isinstance(error, MemoryError) or any(words in str(error) for words in ALLOCATION_FAILED):
            raise ScenarioError(f"not enough memory while {doing} ({lines[0][:200]}); {cure}") from error
        raise


def format_bytes(count: float) -> str:
    """A number of bytes in words, such as 31.4 GB."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if count < 1000:
            return f"{count:.3g} {prefix}B"
        count /= 1000
    return f"{count:.3g} EB"


def keep_freed_memory() -> None:
    """Make the C library keep freed blocks of up to 32 MB, which saves a tenth of the training time on a CPU.

    A training step frees a few megabytes and asks for them again at once; by default the system takes them back and
    hands them out page by page, zeroed, thousands of times per round. Without glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, 32 << 20)
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
