"""SCALLION and SCAFCOM. X. Huang, P. Li, X. Li, "Stochastic Controlled Averaging for Federated Learning with
Communication Compression", ICLR 2024, arXiv:2308.08165; x of the paper is w here, K is tau.

SCAFFOLD's local steps, but a client sends one compressed vector, the change of its control variate, from which the
server computes the model's step, too:

    q_i = (w - y_i)/(eta_l K) - c                         the mean gradient along the path, less c_i
    SCALLION:  delta_i = C(alpha q_i)
    SCAFCOM:   v_i <- (1 - beta) v_i + beta (q_i + c_i),   delta_i = C(v_i - c_i)
    c_i <- c_i + delta_i;   w <- w - eta_g eta_l K (mean delta_i + c),   c <- c + sum delta_i / N

SCALLION's theorem needs an unbiased compressor. SCAFCOM's needs a contractive one, as top_k is; an unbiased one with
E|C(x) - x|^2 <= omega |x|^2 is divided by 1 + omega, which makes it so. Without compression, SCALLION with alpha 1 and
SCAFCOM with beta 1 are SCAFFOLD with option II.
Deviations: none known; the body of the paper was not at hand, and the equations are those of third-party code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator

from wflsim.compress.compressors import AnyCompressor, Compressor, Dithering, TopK
from wflsim.exchange import Ask, Coded, Draw, Gather, Me
from wflsim.policies.base import About, Policy, Rng, Round, Step, Tensor, received, total, weighted
from wflsim.policies.scaffold import State

Part = Annotated[float, Field(gt=0, le=1)]


class ControlledAveraging(Policy):
    """SCAFFOLD that sends up one compressed vector: what SCALLION and SCAFCOM have in common."""

    eta_l: Step = 0.05
    """Local learning rate."""
    eta_g: Step = 1.0
    """Global learning rate."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, w.new_zeros(w.shape), len(d))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, a = yield Draw(self.m or x.N)
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w, "c": x.c}, models_up=1)])
        if not got:
            return x
        step = weighted(x.w, got, "delta", a) + received(got, "c")
        w = x.w - self.eta_g * self.eta_l * self.tau * step
        return State(w, x.c + total(x.c, got, "delta") / x.N, x.N)

    def local_steps(self, me: Me, w: Tensor, c: Tensor) -> Mapping[str, Coded]:
        c_i = me.memory["c"]
        y = me.copies_of(w)
        correction = c - c_i
        for _ in range(self.tau):
            me.descend(y, self.eta_l)
            y.sub_(correction, alpha=self.eta_l)
        delta = self.change(me, (w - y) / (self.eta_l * self.tau) - c, c_i)
        me.memory["c"] = c_i + delta.value
        return {"delta": delta}

    def change(self, me: Me, q: Tensor, c_i: Tensor) -> Coded:
        """delta_i, compressed."""
        raise NotImplementedError


class SCALLION(ControlledAveraging):
    """SCAFFOLD that sends one vector up, compressed without bias: the scaled change of the control variate."""

    name: Literal["scallion"] = "scallion"
    about = About("Huang et al. 2024, arXiv:2308.08165", down="2v", up="1c",
                  needs="memory of 1v per client; an unbiased compressor")

    alpha: Part = 0.1
    """Share of the change of a control variate that is sent; the more the compressor loses, the smaller."""
    compress: AnyCompressor = Dithering(name="dithering")
    """Unbiased compressor of what clients send, part of the algorithm; train.compress.up does not touch it."""

    @field_validator("compress")
    @classmethod
    def _unbiased(cls, compressor: Compressor) -> Compressor:
        if not compressor.unbiased:
            raise ValueError(
                f"{compressor.name} is biased, and the errors of its clients would add up instead of cancelling; use "
                f"rand_k, dithering, quantise or identity, or the policy scafcom, which is made for {compressor.name}"
            )
        return compressor

    def change(self, me: Me, q: Tensor, c_i: Tensor) -> Coded:
        return me.coded(self.alpha * q, self.compress)


class SCAFCOM(ControlledAveraging):
    """SCALLION with local momentum instead of a scaled change, so that a biased compressor such as top_k is allowed."""

    name: Literal["scafcom"] = "scafcom"
    about = About("Huang et al. 2024, arXiv:2308.08165", down="2v", up="1c",
                  needs="memory of 2v per client; a compressor")

    beta: Part = 0.2
    """Share of the new gradient in the local momentum v_i; 1: no momentum."""
    compress: AnyCompressor = TopK(name="top_k", share=0.01)
    """Compressor of what clients send, part of the algorithm; train.compress.up does not touch it."""

    def change(self, me: Me, q: Tensor, c_i: Tensor) -> Coded:
        v = (1 - self.beta) * me.memory["v"] + self.beta * (q + c_i)
        me.memory["v"] = v
        delta = me.coded(v - c_i, self.compress)
        damping = 1 + self.compress.omega(v.shape[1]) if self.compress.unbiased else 1.0
        return Coded(delta.value / damping, delta.bits)
