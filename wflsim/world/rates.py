"""From SNR to spectral efficiency (bit/s per Hz): the rule by which a radio chooses its rate.

Every rule is a pure function of the linear SNR on the allocated band; a rule may answer 0, which means outage.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from wflsim.units import Spec

Floats = NDArray[np.float64]


class RateRule(Protocol):
    """Anything that maps SNR to bit/s per Hz."""

    def efficiency(self, snr: Floats) -> Floats: ...


class Shannon(Spec):
    """log2(1 + SNR): what no code can beat."""

    kind: Literal["shannon"] = "shannon"

    def efficiency(self, snr: Floats) -> Floats:
        return np.asarray(np.log2(1.0 + snr))


def by_name(given: Any) -> Any:
    """`rate: shannon` is short for `rate: {kind: shannon}`."""
    return {"kind": given} if isinstance(given, str) else given


RateSpec = Annotated[Shannon, BeforeValidator(by_name)]
