"""What a payload costs on the wire. Items are tensors (anything with a `shape`), numbers, or `Coded`; no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

BITS_PER_VALUE = 32
"""A value costs 32 bits on the wire whatever the compute dtype; so does a scalar."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A compressed payload item: the values the receiver will see, and the bits that one client's copy really costs."""

    value: Any
    bits: int


def value_of(item: Any) -> Any:
    """The item as the receiver sees it."""
    return item.value if isinstance(item, Coded) else item


def is_array(item: Any) -> bool:
    """Whether the item is a tensor, not a number of Python's or numpy's."""
    return hasattr(item, "shape") and not isinstance(item, np.generic)


def wire_bits(items: Mapping[str, Any], rows: bool) -> int:
    """Bits of one copy of a payload. `rows`: items are [k, ...] and one client's row is one copy.

    The same tensor under two names is sent once (DRDM's snapshot when it is the final model). Equal numbers are not the
    same thing: each is sent.
    """
    bits = 0
    counted: set[int] = set()
    for item in items.values():
        value = value_of(item)
        if is_array(value):
            if id(value) in counted:
                continue
            counted.add(id(value))
        if isinstance(item, Coded):
            bits += item.bits
        else:
            shape = tuple(getattr(item, "shape", ()))
            bits += BITS_PER_VALUE * prod(shape[1:] if rows else shape)
    return bits
