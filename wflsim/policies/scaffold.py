"""SCAFFOLD. S. P. Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
arXiv:1910.06378, Algorithm 1; x of the paper is w here, K is tau.

Deviations: none known. `option: I` takes the new c_i as the gradient at w over all local data (an extra pass, and it is
metered as one); II, the default, from the steps already taken. `compact_uplink` lets the server compute dc_i = -c -
dy_i/(K eta_l) itself, which is possible with option II and halves the upload (SCALLION's observation).
`freeze_c` is an ablation: FedAvg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import model_validator

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Policy, Rng, Round, Step, Tensor, received, total, weighted


@dataclass(frozen=True)
class State:
    """What the server remembers: the model w and the control variate c = mean of the c_i."""

    w: Tensor
    c: Tensor
    N: int


class SCAFFOLD(Policy):
    """Local steps corrected by control variates: c_i estimates client i's gradient, c everybody's."""

    name: Literal["scaffold"] = "scaffold"
    about = About("Karimireddy et al. 2020, arXiv:1910.06378", down="2v", up="2v", needs="memory of 1v per client")

    eta_l: Step = 0.05
    """Local learning rate."""
    eta_g: Step = 1.0
    """Global learning rate."""
    option: Literal["I", "II"] = "II"
    """Control variate c_i: the gradient over all local data at w (I), or the mean along the local path (II)."""
    compact_uplink: bool = False
    """Whether clients send the model's change only, from which the server computes that of c_i."""
    freeze_c: bool = False
    """Ablation: the control variates c and c_i stay 0."""

    @model_validator(mode="after")
    def _reconstructible(self) -> Self:
        if self.compact_uplink and (self.option == "I" or self.freeze_c):
            raise ValueError("compact_uplink needs option: II without freeze_c: only then dc follows from dy")
        return self

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, w.new_zeros(w.shape), len(d))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, a = yield Draw(self.m or x.N)
        models_up = 1 if self.compact_uplink else 2
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w, "c": x.c}, models_up=models_up)])
        if not got:
            return x
        w = x.w + self.eta_g * weighted(x.w, got, "dy", a)                                         # lines 16, 17
        if self.compact_uplink:
            dc = -len(got) * received(got, "c") - total(x.w, got, "dy") / (self.tau * self.eta_l)
        else:
            dc = total(x.w, got, "dc")
        return State(w, x.c + dc / x.N, x.N)

    def local_steps(self, me: Me, w: Tensor, c: Tensor) -> Mapping[str, Tensor]:
        c_i = me.memory["c"]
        y = me.copies_of(w)
        correction = c - c_i
        for _ in range(self.tau):                                                                  # lines 9-11
            me.descend(y, self.eta_l)
            y.sub_(correction, alpha=self.eta_l)
        dy = me.sent(y - w) if self.compact_uplink else y - w
        if self.freeze_c:
            c_new = c_i
        elif self.option == "I":                                                                   # line 12
            c_new = me.g(me.copies_of(w), on=me.everything)
        else:
            c_new = c_i - c - dy / (self.tau * self.eta_l)
        if self.compact_uplink:
            me.memory["c"] = c_new                                                                 # line 14
            return {"dy": dy}
        dc = c_new - c_i
        dc_seen = me.sent(dc)
        me.memory["c"] = c_new + (dc_seen - dc)  # line 14; c_i + dc as the server sees it, c_new if that is dc itself
        return {"dy": dy, "dc": dc_seen}                                                           # line 13
