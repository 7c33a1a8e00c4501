"""Oort. F. Lai, X. Zhu, H. V. Madhyastha, M. Chowdhury, "Oort: Efficient Federated Learning via Guided Participant
Selection", OSDI 2021, arXiv:2010.06081, Algorithm 1: clients with a large loss that are fast enough, and some new ones.

    U_i = min(|B_i| sqrt(mean loss^2), its quantile over all) + sqrt(0.1 ln R / last_i)
    U_i <- U_i (T / t_i)^alpha                                              if t_i > T, the pacer's duration

R is the number of the round from 1 on, last_i the latest round in which client i was heard. (1 - epsilon) m of the
clients heard before are drawn by U among those above the cut-off; the others are new ones, drawn by speed 1/t_i.
epsilon falls by a factor each round. The pacer's T is a quantile of all clients' times that rises when the sum of
utilities over a window falls below that of the window before.
Readings: |B_i| is the number of the client's samples; mean loss^2 is over the minibatches of the order, each by its
mean loss (the paper: over samples); clients report it with each upload, one scalar of 32 bits, which is paid. t_i is
the last time it took; before that, the time expected of the typical order in the present channel. Draws are races by
the policy's stream; ties: the lower number. Not modelled: the paper's noise for privacy, its testing selector and the
removal of clients that were picked too often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wflsim.spec import Spec
from wflsim.units import Share

Positive = Annotated[Share, Field(gt=0)]


class OortSpec(Spec):
    """Parameters of the selector oort."""

    epsilon: Share = 0.9
    """Share of new clients in the first round."""
    epsilon_decay: Positive = 0.98
    """Factor by which the share of new clients falls each round (the paper; the released code: 0.95)."""
    epsilon_min: Share = 0.2
    """Least share of new clients, as long as there are some."""
    cut_off: Positive = 0.95
    """Clients count as good if their utility is at least this share of that of the last one that would be taken (the
    paper; the released code: 0.7)."""
    clip: Positive = 0.95
    """Quantile of the utilities to which larger ones are cut."""
    alpha: Annotated[float, Field(ge=0, le=10)] = 2.0
    """Exponent of the penalty for clients slower than the pacer's duration; 0: none."""
    pace: Positive = 0.3
    """Quantile of all clients' times that is the pacer's first duration."""
    pace_step: Share = 0.05
    """How much the quantile rises when the clients' utilities fall."""
    window: Annotated[int, Field(ge=1, le=100_000)] = 20
    """Rounds of one step of the pacer."""


class Oort:
    """What the selector knows of the clients: utility, latest round, and the time each took."""

    def __init__(self, spec: OortSpec) -> None:
        self._spec = spec
        self.round = 1
        """Number R of the round, from 1 on."""
        self.utility: dict[int, float] = {}
        """|B_i| sqrt(mean loss^2) of every client heard."""
        self._last: dict[int, int] = {}
        self._took_s: dict[int, float] = {}
        self._gained = [0.0]
        """Sum of the utilities of each round so far."""
        self._pace = spec.pace

    def hear(self, client: int, utility: float, took_s: float) -> None:
        """Take in the report of a client whose reply arrived after so many seconds."""
        self.utility[client], self._last[client], self._took_s[client] = utility, self.round, took_s
        self._gained[-1] += utility

    def end_round(self) -> None:
        """Count the round; at the end of a window, let the pacer allow more time if utilities have fallen."""
        width = self._spec.window
        before, latest = self._gained[-2 * width : -width], self._gained[-width:]
        if self.round % width == 0 and self.round >= 2 * width and sum(latest) < sum(before):
            self._pace = min(1.0, self._pace + self._spec.pace_step)
        self.round += 1
        self._gained.append(0.0)

    def scores(self, clients: Sequence[int], expected_s: Callable[[int], float]) -> dict[int, float]:
        """Utility of every client heard before among these, by the formula on top."""
        known = [client for client in clients if client in self.utility]
        if not known:
            return {}
        times_s = {client: self._took_s.get(client, expected_s(client)) for client in clients}
        pacer_s = float(np.quantile(list(times_s.values()), self._pace))
        most = float(np.quantile([self.utility[client] for client in known], self._spec.clip))
        found = {}
        for client in known:
            fresh = math.sqrt(0.1 * math.log(self.round) / self._last[client])
            found[client] = min(self.utility[client], most) + fresh
            if times_s[client] > pacer_s:
                found[client] *= (pacer_s / times_s[client]) ** self._spec.alpha
        return found

    def select(
        self, m: int, clients: Sequence[int], expected_s: Callable[[int], float], race: NDArray[np.float64]
    ) -> list[int]:
        """m of these clients, sorted; `race` holds a standard exponential for each client of the run."""
        spec, scores = self._spec, self.scores(clients, expected_s)
        new = [client for client in clients if client not in scores]
        share = max(spec.epsilon_min, spec.epsilon * spec.epsilon_decay ** (self.round - 1))
        exploited = min(len(scores), max(m - len(new), m - math.ceil(share * m - 1e-9)))
        ranked = sorted(scores.values(), reverse=True)
        good = {i: u for i, u in scores.items() if exploited and u >= spec.cut_off * ranked[exploited - 1]}
        speed = {client: 1 / max(expected_s(client), 1e-9) for client in new}
        return sorted([*_drawn(good, exploited, race), *_drawn(speed, m - exploited, race)])


def _drawn(weight: Mapping[int, float], m: int, race: NDArray[np.float64]) -> list[int]:
    """m clients without replacement in proportion to these weights: the first of the race."""
    finish = {client: race[client] / w if w > 0 else math.inf for client, w in weight.items()}
    return sorted(finish, key=lambda client: (finish[client], client))[:m]
