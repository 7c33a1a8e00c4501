"""Where the clients are: drawn once over the cell, standing still or walking in straight lines from wall to wall.

A walk is a billiard ball on a round table. All its chords have the same length and are turned by the same angle, so the
position at any instant has a closed form: no steps to remember.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import Metres, MetresPerSecond
from wflsim.world.channel.fading import FASTEST_M_PER_S
from wflsim.world.channel.rates import Floats


class PlacementSpec(Spec):
    """Where clients are and how fast they move; has an effect only with radio.path_loss."""

    radius: Annotated[Metres, Field(gt=0, le=1e9)] = 500.0
    """Radius of the cell; clients are spread evenly over its area."""
    min_distance: Annotated[Metres, Field(ge=0.01)] = 10.0
    """Least distance between a client and the base station."""
    distances: Annotated[list[Metres], Field(min_length=1)] | None = None
    """Distances from the base station, dealt out to the clients in turn; null: an even spread over the cell."""
    speed: Annotated[MetresPerSecond, Field(le=FASTEST_M_PER_S)] = 0.0
    """Speed at which clients walk in straight lines from wall to wall; 0: they stand still."""

    @model_validator(mode="after")
    def _room(self) -> PlacementSpec:
        if self.min_distance >= self.radius:
            raise ValueError(
                f"min_distance ({self.min_distance:g} m) leaves no room inside radius {self.radius:g} m; change one"
            )
        if self.distances and max(self.distances) > self.radius:
            raise ValueError(
                f"a distance of {max(self.distances):g} m lies outside the radius of {self.radius:g} m; change one"
            )
        return self


class Placement:
    """Positions as a function of (seed, client, time), the base station at the origin."""

    def __init__(self, spec: PlacementSpec, seed: int, places: Sequence[int] | None = None) -> None:
        """`places`: by client, the number of the place where it stands; None: each at the place of its own number."""
        self.speed_m_per_s = spec.speed
        self.min_distance_m = spec.min_distance
        self._radius_m = spec.radius
        self._distances_m = spec.distances
        self._seed = seed
        self._places = places

    @property
    def causes(self) -> tuple[Any, ...]:
        """All that decides where clients are: equal causes, equal positions."""
        return tuple(vars(self).values())

    def position(self, client: int, at_s: Floats) -> tuple[Floats, Floats]:
        """x and y of a client in metres at these instants."""
        x, y, heading = self._start(client)
        ux, uy = math.cos(heading), math.sin(heading)
        along = x * ux + y * uy
        half_chord = math.sqrt(max(0.0, along**2 + self._radius_m**2 - x**2 - y**2))
        if self.speed_m_per_s == 0 or half_chord == 0:
            return np.full(len(at_s), x), np.full(len(at_s), y)
        since_wall = along + half_chord
        wall_x, wall_y = x - since_wall * ux, y - since_wall * uy
        next_x, next_y = wall_x + 2 * half_chord * ux, wall_y + 2 * half_chord * uy
        turn = math.atan2(wall_x * next_y - wall_y * next_x, wall_x * next_x + wall_y * next_y)
        bounces, rest = np.divmod(since_wall + self.speed_m_per_s * at_s, 2 * half_chord)
        px, py = wall_x + rest * ux, wall_y + rest * uy
        cosine, sine = np.cos(bounces * turn), np.sin(bounces * turn)
        return cosine * px - sine * py, sine * px + cosine * py

    def ground_m(self, x: Floats, y: Floats) -> Floats:
        """Distance in metres on the ground from the base station, at least the least one."""
        return np.maximum(np.hypot(x, y), self.min_distance_m)

    def _start(self, client: int) -> tuple[float, float, float]:
        """x and y in metres of a client at the beginning, and its heading in radians."""
        place = client if self._places is None else self._places[client]
        rng = stream(self._seed, "placement", place)
        share, angle, heading = rng.random(), rng.uniform(0, 2 * math.pi), rng.uniform(0, 2 * math.pi)
        inner, outer = self.min_distance_m**2, self._radius_m**2
        distance_m = math.sqrt(inner + share * (outer - inner))
        if self._distances_m is not None:
            distance_m = max(self.min_distance_m, self._distances_m[place % len(self._distances_m)])
        return distance_m * math.cos(angle), distance_m * math.sin(angle), heading
