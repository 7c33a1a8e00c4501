"""Whether what a scenario asks for fits into the memory of this machine: refused in words, before it is tried.

Linux promises memory it does not have and kills who uses it, so an allocation that succeeds proves nothing: sizes are
computed first. What is not foreseen and fails after all becomes a sentence as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from wflsim.errors import ScenarioError

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
ALLOCATION_FAILED = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation")
"""How torch says it, in a RuntimeError like any other."""


@cache
def machine_bytes() -> int | None:
    """Bytes of memory of this machine, or of the container it pretends to be; None where nobody says."""
    try:
        known = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return None
    for file in CGROUP_LIMITS:
        try:
            known.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(known)


def refuse_unless_it_fits(needed_bytes: float, what: str, cure: str) -> None:
    """Raise a ScenarioError that says how many bytes `what` needs and what to change, unless the machine has them."""
    there = machine_bytes()
    if there is not None and needed_bytes > there:
        raise ScenarioError(
            f"{what} needs {in_bytes(needed_bytes)} of memory and this machine has {in_bytes(there)}; {cure}"
        )


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
    for prefix in ("", "k", "M", "G", "T"):
        if count < 1000:
            return f"{count:.3g} {prefix}B"
        count /= 1000
    return f"{count:.3g} PB"
