"""Who gets which device: a draw of the fleet's devices and places in which speed, data and distance may go together.

The devices themselves are fixed first: as many of each kind as their shares say, by largest remainder, each with its
own speed. Then every client draws a normal score for its speed (and, if data and distance go together, one for its
distance), correlated with the scores of what it has already: a Gaussian copula. Devices are handed out in the order of
those scores, so that shares and speeds stay exactly what they were, and only who has which changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtri

from wflsim.errors import ScenarioError
from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.world.channel.rates import Floats

RankCorrelation = Annotated[float, Field(ge=-1, le=1)]
"""Spearman's rank correlation."""


def _pearson(rank_correlation: float) -> float:
    """The correlation of two normal variables whose ranks are correlated like this."""
    return 2 * math.sin(math.pi * rank_correlation / 6)


def _spearman(correlation: float) -> float:
    """Inverse of `_pearson`."""
    return 6 / math.pi * math.asin(correlation / 2)


class CorrelationSpec(Spec):
    """Rank correlations (Spearman's, from -1 to 1) between what clients have; each 0 by default, none.

    They hold in expectation; a draw of N clients is about 1/sqrt(N) off. What holds for speed is the opposite of what
    holds for computing time.
    """

    speed_data: RankCorrelation = 0.0
    """Correlation between the speed of a client's device and the number of its training samples; 0.6: who has much, is
    fast."""
    speed_distance: RankCorrelation = 0.0
    """Correlation between the speed of a client's device and its distance from the base station at the beginning."""
    data_distance: RankCorrelation = 0.0
    """Correlation between the number of a client's training samples and its distance; if not 0, clients trade
    places."""

    @model_validator(mode="after")
    def _hold_together(self) -> CorrelationSpec:
        one, two, third = map(_pearson, (self.speed_data, self.speed_distance, self.data_distance))
        room = math.sqrt((1 - one**2) * (1 - two**2))
        low, high = (max(-1.0, min(1.0, one * two + sign * room)) for sign in (-1, 1))
        if not low - 1e-12 <= third <= high + 1e-12:
            raise ValueError(
                f"these rank correlations cannot hold together: with speed_data {self.speed_data:g} and speed_distance "
                f"{self.speed_distance:g}, data_distance must be from {_spearman(low):.2f} to {_spearman(high):.2f}, "
                f"and is {self.data_distance:g}"
            )
        return self


class FleetSpec(Spec):
    """How clients get the devices of the fleet: by a draw of exact shares, in which speed may go with other things."""

    correlation: CorrelationSpec = CorrelationSpec()
    """Rank correlations between speed, data and distance; by default none."""

    @property
    def needs_samples(self) -> bool:
        """Whether the draw depends on how many samples each client has."""
        return bool(self.correlation.speed_data or self.correlation.data_distance)


class Deal(NamedTuple):
    """What each client has drawn."""

    devices: list[int]
    """By client: the number of its device."""
    places: list[int] | None
    """By client: the number of the place where it stands; None: its own."""


def shares_to_counts(shares: Sequence[float], clients: int) -> list[int]:
    """How many of so many clients have each kind of device: their shares, rounded by largest remainder."""
    exact = [share / sum(shares) * clients for share in shares]
    counts = [math.floor(count) for count in exact]
    missing = clients - sum(counts)
    remainders = sorted(range(len(shares)), key=lambda kind: (counts[kind] - exact[kind], kind))
    for kind in remainders[:missing]:
        counts[kind] += 1
    return counts


def deal(
    spec: FleetSpec,
    sample_s: Sequence[float],
    samples: Sequence[int] | None,
    distances_m: Sequence[float] | None,
    seed: int,
) -> Deal:
    """Hand out devices, and places if need be, to clients by the draw of this seed.

    `sample_s`: seconds that each device takes for a training sample. `samples`: training samples of each client, None
    if not known. `distances_m`: distance of each place, None where clients have none.
    """
    asked, clients = spec.correlation, len(sample_s)
    with_data, with_distance, moved = map(
        _pearson, (asked.speed_data, asked.speed_distance if distances_m else 0.0, asked.data_distance)
    )
    moved = moved if distances_m else 0.0
    drawn = np.array([stream(seed, "fleet", client).normal(size=3) for client in range(clients)])
    places: list[int] | None = None
    data = _scores(_sizes(samples, clients), drawn[:, 2]) if with_data or moved else np.zeros(clients)
    distance = np.zeros(clients)
    if moved and distances_m:
        distance = _scores(moved * data + math.sqrt(1 - moved**2) * drawn[:, 1], drawn[:, 2])
        places = _matched(np.array(distances_m), distance, stream(seed, "fleet places").random(clients))
    elif with_distance and distances_m:
        distance = _scores(np.array(distances_m), drawn[:, 2])
    on_data, on_distance, rest = _regression(with_data, with_distance, moved)
    speed = on_data * data + on_distance * distance + rest * drawn[:, 0]
    ties = stream(seed, "fleet devices").random(clients)
    return Deal(_matched(-np.array(sample_s), speed, ties), places)


def _sizes(samples: Sequence[int] | None, clients: int) -> Floats:
    """Training samples of each client; a ScenarioError where they are not known, or all alike."""
    if samples is None or len(samples) != clients:
        raise ScenarioError(
            "fleet.correlation: speed_data and data_distance need the number of each client's training samples, which "
            "this world was not told"
        )
    if len(set(samples)) == 1 and clients > 1:
        raise ScenarioError(
            f"fleet.correlation: every client has {samples[0]} training samples, so nothing can go with their number; "
            f"leave speed_data and data_distance 0, or choose a partition of unequal parts"
        )
    return np.array(samples, dtype=float)


def _regression(with_data: float, with_distance: float, between: float) -> tuple[float, float, float]:
    """Weights of the scores of data, of distance and of a score of its own in the score of speed, by the correlations
    of normal scores."""
    if abs(between) > 1 - 1e-9:  # then distance says nothing that data does not
        return with_data, 0.0, math.sqrt(max(0.0, 1 - with_data**2))
    left = 1 - between**2
    on_data, on_distance = (with_data - between * with_distance) / left, (with_distance - between * with_data) / left
    return on_data, on_distance, math.sqrt(max(0.0, 1 - on_data * with_data - on_distance * with_distance))


def _scores(values: Floats, ties: Floats) -> Floats:
    """Normal scores of the ranks of values; equal values are ranked by `ties`."""
    rank = np.empty(len(values))
    rank[np.lexsort((ties, values))] = np.arange(len(values))
    return np.asarray(ndtri((rank + 0.5) / len(values)))


def _matched(values: Floats, scores: Floats, ties: Floats) -> list[int]:
    """For each score, the position of the value of the same rank; equal values are ranked by `ties`."""
    found = np.empty(len(values), dtype=int)
    found[np.argsort(scores, kind="stable")] = np.lexsort((ties, values))
    return [int(position) for position in found]
