"""Failing uploads: attempts of each block (HARQ), and the loss that remains. All blocks are drawn in one call."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from wflsim.errors import ScenarioError
from wflsim.spec import Spec
from wflsim.units import Bits, Ratio, Share

UNITS_AT_MOST = 1_000_000
"""Blocks into which one upload may be cut, because the attempts of each are drawn."""


class LossSpec(Spec):
    """Independent failures of each attempt; an upload (or each block of it) is tried `attempts` times, then lost."""

    probability: Annotated[Share, Field(lt=1)] = 0.0
    """Probability that one attempt fails, whatever the SNR."""
    outage_threshold: Ratio | None = None
    """SNR below which Rayleigh fading means outage: an attempt fails with probability 1 - exp(-threshold/SNR). The SNR
    is that of the instant at which the upload begins, on the band that it then has: its own (cell.access dedicated),
    the whole band (tdma), its equal share among all who send then (ofdma), or its planned part (a planned split). Null:
    attempts fail with `probability`."""
    waterfall: Ratio | None = None
    """Threshold m of the packet error law 1 - exp(-m/SNR) (Chen et al. 2021: 1.08), taken at the SNR of the instant at
    which the upload begins, interference included. The formula is that of outage_threshold, but fading is not averaged
    over: with radio.fading the SNR is the faded one. Null: attempts fail with `probability`."""
    attempts: Annotated[int, Field(ge=1, le=64)] = 1
    """How often the same block is sent before it is given up (HARQ)."""
    block: Annotated[Bits, Field(ge=1)] | None = None
    """Bits that are sent again together when an attempt fails; null: the whole upload."""

    @model_validator(mode="after")
    def _one_law(self) -> LossSpec:
        laws = {name: getattr(self, name) for name in ("probability", "outage_threshold", "waterfall")}
        given = [name for name, value in laws.items() if value is not None and (value > 0 or name != "probability")]
        if len(given) > 1:
            raise ValueError(f"give either {' or '.join(given)}: each says how often an attempt fails")
        return self

    @property
    def threshold(self) -> float | None:
        """Linear SNR by which attempts fail with 1 - exp(-threshold/SNR); None: whatever the SNR."""
        return self.outage_threshold if self.waterfall is None else self.waterfall

    @property
    def none(self) -> bool:
        """Whether no attempt ever fails."""
        return self.probability == 0 and self.threshold is None


class Trial(NamedTuple):
    """The attempts of one upload, block by block, up to the first block that exhausts them."""

    tries: NDArray[np.int64]
    """Attempts of each block that goes on the air; of a lost upload, the last of them is the block that failed."""
    sizes: NDArray[np.float64]
    """Bits of each of these blocks."""
    delivered: bool
    """Whether every block got through."""

    @property
    def attempts(self) -> int:
        """Attempts of all blocks together."""
        return int(self.tries.sum())

    @property
    def air_bits(self) -> float:
        """Bits on the air, all attempts of all blocks together."""
        return float(self.tries @ self.sizes)

    def sent(self, air_bits: float) -> tuple[int, int]:
        """(bits, attempts) when `air_bits` have been on the air; bits that are sent again count once."""
        ends_bits = np.cumsum(self.tries * self.sizes)
        # The medium counts in floats: a hair less than everything is everything.
        done = int(np.searchsorted(ends_bits, air_bits * (1 + 1e-12) + 1e-9, side="right"))
        bits, attempts = float(self.sizes[:done].sum()), int(self.tries[:done].sum())
        if done < len(self.tries):
            begun_bits = max(0.0, air_bits - (float(ends_bits[done - 1]) if done else 0.0))
            bits += min(begun_bits, float(self.sizes[done]))
            attempts += min(math.ceil(begun_bits / float(self.sizes[done])), int(self.tries[done]))
        return int(bits), attempts


def failure_probability(spec: LossSpec, snr: float) -> float:
    """Probability that one attempt at this linear SNR fails."""
    if spec.threshold is None:
        return spec.probability
    return -math.expm1(-spec.threshold / snr) if snr > 0 else 1.0


def send_attempts(spec: LossSpec, bits: int, probability: float, rng: np.random.Generator) -> Trial:
    """Draw the attempts of every block; sending ends at the first block that exhausts them."""
    block_bits = bits if spec.block is None else min(spec.block, bits)
    blocks = math.ceil(bits / block_bits) if bits else 1
    if blocks > UNITS_AT_MOST:
        raise ScenarioError(
            f"radio.loss.block of {block_bits:g} bits cuts an upload of {bits} bits into {blocks} blocks (at most "
            f"{UNITS_AT_MOST}); make the block larger"
        )
    # A unit fails k times in a row with probability p^k: its failures are a geometric number, by inversion.
    failures = np.zeros(blocks)
    if probability >= 1:
        failures += spec.attempts
    elif probability > 0:
        failures = np.floor(np.log(np.maximum(rng.random(blocks), 1e-300)) / math.log(probability))
    tries = np.minimum(failures + 1, spec.attempts).astype(np.int64)
    exhausted = np.flatnonzero(failures >= spec.attempts)
    if exhausted.size:
        tries = tries[: exhausted[0] + 1]
    sizes = np.full(blocks, float(block_bits))
    sizes[-1] = bits - block_bits * (blocks - 1)
    return Trial(tries, sizes[: len(tries)], exhausted.size == 0)
