"""Rate rules: from the linear SNR on the allocated band to the spectral efficiency in bit/s per Hz.

A rule is a pure function and may answer 0, which means outage. The smooth rules answer 0 for an SNR of 0 only: they use
`log1p`, because log2(1 + SNR) is 0 already below about -157 dB. To add a rule: a spec with `efficiency` here, and its
name in `RateSpec`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from wflsim.spec import Spec
from wflsim.units import Ratio, db_to_ratio
from wflsim.world.bounds import within_db

Floats = NDArray[np.float64]
LN2 = float(np.log(2.0))

# CQI 1 to 15 of LTE: bit/s per Hz, and the SNR in dB from which on each is decodable.
CQI_EFFICIENCY = np.array(
    [.1523, .2344, .3770, .6016, .8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547]
)  # fmt: skip
CQI_THRESHOLD_DB = (-6.7, -4.7, -2.3, 0.2, 2.4, 4.3, 5.9, 8.1, 10.3, 11.7, 14.1, 16.3, 18.7, 21.0, 22.7)
CQI_THRESHOLD = np.array([db_to_ratio(threshold_db) for threshold_db in CQI_THRESHOLD_DB])


class RateRule(Protocol):
    """Anything that maps SNR to spectral efficiency."""

    def efficiency(self, snr: Floats) -> Floats:
        """bit/s per Hz at these linear SNRs; 0 in outage."""


class Shannon(Spec):
    """log2(1 + SNR): Shannon's capacity, which no code can beat."""

    name: Literal["shannon"] = "shannon"

    def efficiency(self, snr: Floats) -> Floats:
        return np.asarray(np.log1p(snr) / LN2)


class Gap(Spec):
    """log2(1 + SNR/gap): Shannon's capacity at a distance, as real codes attain it."""

    name: Literal["gap"]
    gap: Annotated[Ratio, within_db(-60, 60)] = db_to_ratio(3.0)
    """How much more SNR a real code needs than Shannon's formula says."""

    def efficiency(self, snr: Floats) -> Floats:
        return np.asarray(np.log1p(snr / self.gap) / LN2)


class Cqi(Spec):
    """The best of LTE's fifteen modulation and coding schemes that the SNR carries; below the lowest, outage."""

    name: Literal["cqi"]

    def efficiency(self, snr: Floats) -> Floats:
        index = np.searchsorted(CQI_THRESHOLD, snr, side="right")
        return np.concatenate(([0.0], CQI_EFFICIENCY))[index]


class Fixed(Spec):
    """Always the same spectral efficiency; outage while Shannon's capacity is below it."""

    name: Literal["fixed"]
    efficiency_bps_per_hz: Annotated[float, Field(ge=1e-6, le=20)] = 1.0
    """Spectral efficiency in bit/s per Hz, whatever the SNR."""

    def efficiency(self, snr: Floats) -> Floats:
        return np.where(np.log1p(snr) / LN2 >= self.efficiency_bps_per_hz, self.efficiency_bps_per_hz, 0.0)


class Averaged:
    """A rate rule averaged over fast fading, whose distribution of |h|^2 is given as `gains` with `weights`."""

    def __init__(self, rule: RateRule, gains: Floats, weights: Floats) -> None:
        self._rule = rule
        self._gains = gains
        self._weights = weights

    def efficiency(self, snr: Floats) -> Floats:
        return np.asarray(self._rule.efficiency(np.multiply.outer(snr, self._gains)) @ self._weights)


def by_name(given: Any) -> Any:
    """The block that a bare name stands for: `rate: shannon` is short for `rate: {name: shannon}`."""
    return {"name": given} if isinstance(given, str) else given


RateSpec = Annotated[Shannon | Gap | Cqi | Fixed, Field(discriminator="name"), BeforeValidator(by_name)]
