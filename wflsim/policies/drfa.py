"""DRFA. Y. Deng, M. M. Kamani, M. Mahdavi, "Distributionally Robust Federated Averaging", NeurIPS 2020,
arXiv:2102.12660, Algorithms 1 and 2.

Readings: D is drawn by lambda without replacement (`scheme`; the lemmas assume `with_replacement`, the released code
runs `uniform_weighted`, which is also the unbiased one). t' counts steps taken, 1..tau, one draw per round; `snapshot:
pre_step` is the released code's. lambda keeps a floor, because without one it has exact zeros after a round and m
distinct clients cannot be drawn; the paper's gamma of 8e-3 would wipe out unsampled clients, so the default is DRDM's.
The theorems need decaying steps and the average iterate, `eval_model: average`; the released code reports the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np

from wflsim.exchange import Ask, Draw, Gather, Me, Scheme
from wflsim.policies.base import About, Rng, Round, Tensor, average_models, received
from wflsim.policies.dual import ModelAndMixture, TwoPhases
from wflsim.policies.steps import DecayingCoefficient, DecayingStep, Evaluated, evaluated, step_at


class DRFA(TwoPhases):
    """FedAvg over clients drawn by the dual variable of the worst mixture."""

    name: Literal["drfa"] = "drfa"
    about = About("Deng et al. 2020, arXiv:2102.12660", down="1v+1s / 1v", up="2v / 1s")

    eta: DecayingStep = 0.05
    """Learning rate."""
    gamma: DecayingCoefficient = 5e-4
    """Step of the dual variable lambda."""
    scheme: Scheme = "sequential"
    """How clients are drawn by lambda; `wflsim list scheme` describes each."""
    start_lambda: Literal["uniform", "data"] = "uniform"
    """Dual variable lambda at first: 1/N for each client, or in proportion to its samples."""
    snapshot: Literal["post_step", "pre_step"] = "post_step"
    """Snapshot z_i: the iterate after the random step t' (the paper) or before it (the released code)."""
    eval_model: Evaluated = "server"
    """Model that is evaluated: the server's last one, or the average of those of all rounds."""

    def start(self, w: Tensor, d: Sequence[int]) -> ModelAndMixture:
        share = np.full(len(d), 1.0) if self.start_lambda == "uniform" else np.asarray(d, dtype=np.float64)
        return ModelAndMixture(w, share / share.sum(), w)

    def round(self, x: ModelAndMixture, s: int, rng: Rng) -> Round[ModelAndMixture]:
        gamma = step_at(self.gamma, s)
        D, a = yield Draw(self.m, by=x.lam, scheme=self.scheme)
        t = int(rng("snapshot").integers(1, self.tau + 1))
        work = partial(self.local_steps, eta=step_at(self.eta, s))
        got = yield Gather([Ask(D, work, shared={"w": x.w, "t": t}, models_up=2)])
        if not got:
            return x
        w, w_t = (average_models(received(got, "w"), got, name, a) for name in ("y", "z"))
        lam = yield from self.dual_update(x.lam, w_t, step=self.tau * gamma)
        return ModelAndMixture(w, lam, evaluated(self.eval_model, x.shown, w, s))

    def model(self, x: ModelAndMixture, me: Me) -> Tensor:
        return x.shown

    def local_steps(self, me: Me, w: Tensor, t: int, eta: float) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        for k in range(1, self.tau + 1):
            if k == t and self.snapshot == "pre_step":
                z = y.clone()
            me.descend(y, eta)
            if k == t and self.snapshot == "post_step":
                z = y if t == self.tau else y.clone()  # the last iterate is y itself: sent, and paid for, once
        y, z = me.sent(y, z, near=w)
        return {"y": y, "z": z}
