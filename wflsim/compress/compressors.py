"""Compressors of vectors: identity, quantise, dithering, rand_k and top_k, each a block of a scenario.

A compressor maps the rows of [k, n] to what the receiver will see, and says how many bits one row costs. E is the
expectation over its random numbers; `omega` bounds the relative error, E|C(x) - x|^2 <= omega |x|^2.

Compression loses most where a vector is long and its changes are small, as those of a model are. rand_k, top_k and
dithering, whose error grows with the length of the vector, therefore compress the change y - w of a model y that a
client computed from a received w: the receiver adds the w that it had sent. quantise rounds a model itself, because its
levels lie between the smallest and the largest value of a block. Nothing of what was left out is sent later: there is
no error feedback, except where a policy has one (SCAFCOM).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from wflsim.exchange import BITS_PER_VALUE
from wflsim.spec import Spec
from wflsim.units import Share

if TYPE_CHECKING:  # compressors are blocks of a scenario, and reading one must not cost an import of torch
    from torch import Tensor

BLOCK = 1024
"""Number of values that share one range of levels of `quantise`."""


class Compressor(Spec):
    """Base class of all compressors."""

    unbiased: ClassVar[bool] = True
    """Whether the mean of what is received is what was sent, E C(x) = x."""
    of_changes: ClassVar[bool] = False
    """Whether a model that a client computed from a received one is compressed as its change from that."""

    name: str

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        """The [k, n] rows as the receiver will see them, and the bits of one row; row i may draw from rngs[i] only."""
        raise NotImplementedError

    def omega(self, values: int) -> float:
        """Bound on E|C(x) - x|^2 / |x|^2 for vectors of so many values; 0: nothing is lost."""
        raise NotImplementedError


class Identity(Compressor):
    """Everything as it is computed, 32 bits per value."""

    name: Literal["identity"] = "identity"

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        return rows, dense_bits(rows.shape[1])

    def omega(self, values: int) -> float:
        return 0.0


class Quantise(Compressor):
    """Stochastic rounding to 2^bits levels between the smallest and the largest of 1,024 values; unbiased.

    A block of 1,024 values carries two numbers of 32 bits, its ends. A model that is sent whole can come no nearer to
    an optimum than one level of its widest block.
    """

    name: Literal["quantise"]
    bits: Literal[4, 8, 16] = 8
    """Bits per value."""

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        values = rows.shape[1]
        rounded = rows.new_empty(rows.shape)
        for place, row, rng in zip(rounded, rows, rngs, strict=True):
            place.copy_(stochastic_round(row, self.bits, rng))
        ends = 2 * BITS_PER_VALUE * -(-values // BLOCK)
        return rounded, min(self.bits * values + ends, dense_bits(values))

    def omega(self, values: int) -> float:
        # A level is (high - low)/(2^bits - 1) <= sqrt(2) |block|/(2^bits - 1); rounding has at most its square/4.
        return min(values, BLOCK) / (2.0 * float(2**self.bits - 1) ** 2)


class Dithering(Compressor):
    """Random dithering: sign and one of `levels` + 1 shares of the vector's length for each value; unbiased.

    |x_j| is rounded at random to a neighbouring multiple of |x|/levels, |x| the Euclidean norm, which is sent in 32
    bits. Also known as QSGD.
    """

    of_changes: ClassVar[bool] = True

    name: Literal["dithering"]
    levels: Annotated[int, Field(ge=1, le=1 << 20)] = 16
    """Number of levels above zero; a value costs one bit for its sign and ceil(log2(levels + 1)) for its level."""

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        values, seen = rows.shape[1], rows.new_empty(rows.shape)
        for place, row, rng in zip(seen, rows, rngs, strict=True):
            unit = row.norm() / self.levels
            chance = seen.new_tensor(rng.random(values))
            level = (row.abs() / unit.where(unit > 0, 1.0)).add_(chance).floor_()
            place.copy_(row.sign().mul_(level).mul_(unit))
        return seen, min(BITS_PER_VALUE + values * (1 + self.levels.bit_length()), dense_bits(values))

    def omega(self, values: int) -> float:
        return min(values / self.levels**2, math.sqrt(values) / self.levels)


class Sparse(Compressor):
    """Base of the compressors that send k of n values with their places, k (32 + ceil(log2 n)) bits."""

    of_changes: ClassVar[bool] = True

    share: Share
    """Share k/n of the values that is sent, at least one value."""

    @field_validator("share")
    @classmethod
    def _something(cls, share: float) -> float:
        if share == 0:
            raise ValueError("must be more than 0: a share of the values is sent, at least one")
        return share

    def count(self, values: int) -> int:
        """Number of values that are sent of so many."""
        return max(1, round(self.share * values))

    def bits(self, values: int) -> int:
        """Bits of the values that are sent and of their places; never more than all of them would cost without."""
        each = BITS_PER_VALUE + math.ceil(math.log2(values))
        return min(self.count(values) * each, dense_bits(values))


class RandK(Sparse):
    """A random share of the values, multiplied by n/k so that the mean is right: unbiased."""

    name: Literal["rand_k"]

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        values, seen = rows.shape[1], rows.new_zeros(rows.shape)
        k = self.count(values)
        for place, row, rng in zip(seen, rows, rngs, strict=True):
            chosen = rng.permutation(values)[:k]
            place[chosen] = row[chosen] * (values / k)
        return seen, self.bits(values)

    def omega(self, values: int) -> float:
        return values / self.count(values) - 1


class TopK(Sparse):
    """The share of the values that is largest in magnitude; biased, but never further off than the vector is long."""

    unbiased: ClassVar[bool] = False

    name: Literal["top_k"]

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        values = rows.shape[1]
        largest = rows.abs().topk(self.count(values), dim=1).indices
        return rows.new_zeros(rows.shape).scatter_(1, largest, rows.gather(1, largest)), self.bits(values)

    def omega(self, values: int) -> float:
        return 1 - self.count(values) / values


AnyCompressor = Annotated[Identity | Quantise | Dithering | RandK | TopK, Field(discriminator="name")]
DenseCompressor = Annotated[Identity | Quantise | Dithering, Field(discriminator="name")]


class CompressSpec(Spec):
    """Compression of every vector that is sent, by one compressor up and one down; scalars are sent as they are."""

    up: AnyCompressor = Identity()
    """Compressor of what clients send to the server."""
    down: DenseCompressor = Identity()
    """Compressor of what the server sends to clients: identity, quantise or dithering."""

    @field_validator("down", mode="before")
    @classmethod
    def _refuse_sparse_models(cls, given: Any) -> Any:
        name = given.get("name") if isinstance(given, dict) else None
        if name in ("rand_k", "top_k"):
            raise ValueError(
                f"{name} would set most values of the model to zero: the server sends models whole, because clients "
                f"that were not drawn do not hold the last one; use quantise, dithering or identity"
            )
        return given


def dense_bits(values: int) -> int:
    """Bits of so many values without compression."""
    return BITS_PER_VALUE * values


def stochastic_round(vector: Tensor, bits: int, rng: np.random.Generator) -> Tensor:
    """The vector [n] rounded to 2^bits levels per block, at random so that the mean is right."""
    short = -len(vector) % BLOCK
    # Filled up with its own last value, a short block keeps its range.
    filled = vector.new_empty(len(vector) + short)
    filled[: len(vector)] = vector
    filled[len(vector) :] = vector[-1]
    blocks = filled.view(-1, BLOCK)
    low, high = blocks.aminmax(dim=1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    chance = vector.new_tensor(rng.random(blocks.shape, dtype=np.float32))
    level = ((blocks - low) / step.where(step > 0, 1.0) + chance).floor_().clamp_(max=2**bits - 1)
    rounded: Tensor = (low + step * level).flatten()[: len(vector)]
    return rounded
