"""The hard cases that the contract must carry, each a policy of about twenty lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from wflsim.exchange import Ask, Draw, Gather, Receive, Reply, Send
from wflsim.policies.base import About, Policy, average_models


@dataclass(frozen=True)
class W:
    w: torch.Tensor
    d: tuple[int, ...]
    log: tuple = field(default=())


class Hard(Policy):
    m: int = 4
    tau: int = 2
    about = About("tests")

    def start(self, w, d):
        return W(w, tuple(d))

    def steps(self, me, w, tau=None):
        y = me.copies_of(w)
        for _ in range(tau or self.tau):
            y.sub_(me.g(y), alpha=0.1)
        return y


class TwoPhases(Hard):
    """SCAFF-PD's shape: a gradient goes up, their mean comes down, the client still knows x and its own gradient."""

    name: Literal["two_phases"] = "two_phases"

    def round(self, x, s, rng):
        D, a = yield Draw(self.m)
        got = yield Gather([Ask(D, self.gradient, shared={"w": x.w})])
        if not got:
            return x
        c = average_models(torch.zeros_like(x.w), got, "c", a)
        back = yield Gather([Ask([reply.client for reply in got], self.walk, shared={"c": c}, models_up=1)])
        return replace(x, w=x.w + average_models(torch.zeros_like(x.w), back, "delta", a)) if back else x

    def gradient(self, me, w):
        me.scratch["x"] = me.copies_of(w)
        me.scratch["c"] = me.g(me.copies_of(w))
        return {"c": me.scratch["c"]}

    def walk(self, me, c):
        x, c_i = me.scratch["x"], me.scratch["c"]
        assert x.abs().sum() > 0, "the first phase is forgotten"
        y = x.clone()
        for _ in range(self.tau):
            y -= 0.1 * (me.g(y) - c_i + c)
        return {"delta": y - x}


class Asynchronous(Hard):
    """FedBuff's shape with a buffer of one: three clients at work, whoever ends is replaced."""

    name: Literal["asynchronous"] = "asynchronous"
    asynchronous = True

    def round(self, x, s, rng):
        if s == 0:
            D, _ = yield Draw(3)
            yield Send(Ask(D, self.task, shared={"w": x.w, "t": s}, models_up=1))
        answer = yield Receive()
        if isinstance(answer, Reply):
            x = replace(x, w=x.w + 0.5 * answer["delta"] / (1 + s - float(answer["t"])))
        x = replace(x, log=(*x.log, (answer.client, isinstance(answer, Reply))))
        D, _ = yield Draw(1)
        yield Send(Ask(D, self.task, shared={"w": x.w, "t": s}, models_up=1))
        return x

    def task(self, me, w, t):
        return {"delta": self.steps(me, w) - w, "t": torch.full((len(me.clients),), float(t))}


class ModelPerClient(Hard):
    """Clustered FL's shape: even and odd clients have a model each, sent in two asks of one gather."""

    name: Literal["model_per_client"] = "model_per_client"

    def start(self, w, d):
        return W(torch.stack([w, w]), tuple(d))

    def round(self, x, s, rng):
        D, _ = yield Draw(self.m)
        parts = [[i for i in D if i % 2 == c] for c in (0, 1)]
        got = yield Gather([Ask(part, self.local, shared={"w": x.w[c]}, models_up=1) for c, part in enumerate(parts)])
        w = x.w.clone()
        for c in (0, 1):
            mine = [reply for reply in got if reply.client % 2 == c]
            if mine:
                w[c] = average_models(x.w[c], mine, "y", {i: 1 / len(parts[c]) for i in parts[c]})
        return replace(x, w=w)

    def local(self, me, w):
        return {"y": self.steps(me, w)}

    def model(self, x, me):
        return x.w[[i % 2 for i in me.clients]]


class TauPerClient(Hard):
    """FedNova's shape: row i of tau goes to client i by unicast; each client of a chunk rests after its own tau."""

    name: Literal["tau_per_client"] = "tau_per_client"

    def round(self, x, s, rng):
        D, a = yield Draw(self.m)
        got = yield Gather([Ask(D, self.local, shared={"w": x.w}, each={"tau": torch.tensor([1 + i % 3 for i in D])})])
        return replace(x, w=average_models(x.w, got, "y", a)) if got else x

    def local(self, me, w, tau):
        y = me.copies_of(w)
        for _ in me.steps(tau, y):
            y -= 0.1 * me.g(y)
        return {"y": y, "tau": tau}


class Personal(Hard):
    """Ditto's shape: v_i stays on the device, whatever becomes of the upload; memory counts deliveries only."""

    name: Literal["personal"] = "personal"

    def round(self, x, s, rng):
        D, a = yield Draw(self.m)
        got = yield Gather([Ask(D, self.local, shared={"w": x.w}, models_up=1)])
        return replace(x, w=average_models(x.w, got, "y", a)) if got else x

    def local(self, me, w):
        v = me.personal.get("v", w)
        me.personal["v"] = v - 0.1 * (me.g(v) + (v - w))
        me.personal["computed"] = me.personal["computed"] + 1
        me.memory["delivered"] = me.memory["delivered"] + 1
        return {"y": self.steps(me, w)}

    def model(self, x, me):
        return me.personal.get("v", x.w)


ASYNCHRONOUS = Asynchronous()
HARD = [TwoPhases(), ASYNCHRONOUS, ModelPerClient(), TauPerClient(), Personal()]
