"""Uploads that fail: attempts, blocks and residual loss. All blocks of a transfer are drawn in one call."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from wflsim.units import Bits, Ratio, Spec


class LossSpec(Spec):
    """Independent failures of each attempt; an upload (or each block of it) is tried `attempts` times, then lost."""

    probability: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """That one attempt fails."""
    outage_threshold: Ratio | None = None
    """Instead: an attempt fails with probability 1 - exp(-threshold/SNR), the Rayleigh outage below this SNR."""
    attempts: Annotated[int, Field(ge=1, le=64)] = 1
    """HARQ: how often the same unit is sent before it is given up."""
    block: Bits | None = None
    """The unit of retransmission; None: the whole upload."""

    @model_validator(mode="after")
    def _one_law(self) -> LossSpec:
        if self.probability > 0 and self.outage_threshold is not None:
            raise ValueError("give either probability or outage_threshold: each says how often an attempt fails")
        return self


class Trial(NamedTuple):
    """What came of sending one upload, whatever the time it took."""

    attempts: int
    air_bits: float
    """Bits on the air, all attempts together."""
    delivered: bool


def failure_probability(spec: LossSpec, snr: float) -> float:
    """That one attempt at this SNR fails."""
    if spec.outage_threshold is None:
        return spec.probability
    return -math.expm1(-spec.outage_threshold / snr) if snr > 0 else 1.0


def send_attempts(spec: LossSpec, bits: int, probability: float, rng: np.random.Generator) -> Trial:
    """Draw the attempts of every block; sending ends at the first block that exhausts them."""
    block_bits = bits if spec.block is None else min(spec.block, bits)
    blocks = math.ceil(bits / block_bits) if bits else 1
    # A unit fails k times in a row with probability p^k: its failures are a geometric number, by inversion.
    failures = np.zeros(blocks)
    if probability >= 1:
        failures += spec.attempts
    elif probability > 0:
        failures = np.floor(np.log(np.maximum(rng.random(blocks), 1e-300)) / math.log(probability))
    tries = np.minimum(failures + 1, spec.attempts)
    exhausted = np.flatnonzero(failures >= spec.attempts)
    if exhausted.size:
        tries = tries[: exhausted[0] + 1]
    sizes = np.full(blocks, float(block_bits))
    sizes[-1] = bits - block_bits * (blocks - 1)
    return Trial(int(tries.sum()), float(tries @ sizes[: len(tries)]), exhausted.size == 0)
