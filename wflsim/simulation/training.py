"""Training: the demands of a policy, stepped with a torch learner."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

import numpy as np
import torch

from wflsim.errors import Diverged, PolicyError
from wflsim.exchange import (
    BITS_PER_VALUE,
    Allot,
    Ask,
    Draw,
    Edges,
    Gather,
    Gossip,
    Lost,
    Met,
    Order,
    Outcome,
    Receive,
    Reply,
    Request,
    Send,
)
from wflsim.learning.clients import FEWER
from wflsim.learning.learner import Learner, Result
from wflsim.learning.machine import memory_errors_in_words
from wflsim.policies.adaptive import adaptation
from wflsim.policies.base import Policy
from wflsim.questions import Allotment, Neighbours, Reports
from wflsim.records import Evaluation, Step
from wflsim.rng import stream
from wflsim.simulation.blame import begin, blamed, called, check_asked, check_request, check_state, limited
from wflsim.simulation.loop import Flow
from wflsim.simulation.pacing import Pacing


class Training:
    """Runs the client half when an order is given, and lets outcomes decide what of it counts."""

    def __init__(self, policy: Policy, learner: Learner, seed: int, evaluate_every: int = 1) -> None:
        self.policy = policy
        self.learner = learner
        self.seed = seed
        self.evaluate_every = evaluate_every
        with blamed(policy, "start", at=lambda: policy.start):
            self.state = policy.start(learner.initial(), learner.samples)
        check_state(policy, self.state)
        self._s = 0
        self._under_way: list[Result] = []
        self._sent: Counter[int] = Counter()
        spec = adaptation(policy.tau)
        self._pacing = None if spec is None else Pacing(policy, spec, learner.samples)

    def round(self, s: int) -> Flow:
        policy = self.policy
        if self._pacing is not None:
            tau: int = yield self._pacing.question(s)
            policy = policy.model_copy(update={"tau": tau})
        with blamed(self.policy, f"round {s}", at=lambda: self.policy.round):
            flow = begin(policy, self.state, s, lambda name: stream(self.seed, "policy", name, s))
        with (
            blamed(self.policy, f"round {s}", at=lambda: flow),
            memory_errors_in_words(f"training {self.policy.name} in round {s}", FEWER),
        ):
            return (yield from self._round(s, flow))

    def _round(self, s: int, flow: Generator[Request, Any, Any]) -> Flow:
        self._s = s
        answer: Any = None
        phase = asked = 0
        for requests in count(1):
            try:
                with limited(self.policy):
                    request = flow.send(answer)
            except StopIteration as done:
                check_asked(self.policy, s, asked)
                check_state(self.policy, done.value, self.state)
                self.state = done.value
                break
            check_request(self.policy, flow, request, requests)
            asked += not isinstance(request, Draw | Allot)
            if isinstance(request, Draw):
                answer = yield request
            elif isinstance(request, Allot):
                samples = {client: self.learner.step_samples(client) for client in request.steps}
                answer = yield Allotment(s, phase, request.steps, samples)
            elif isinstance(request, Gather):
                answer = yield from self._gather(request, s, phase)
                phase += 1
            elif isinstance(request, Gossip):
                answer = yield from self._gossip(request.ask, s, phase)
                phase += 1
            elif isinstance(request, Send):
                yield from self._send(request.ask, s, phase)
                answer = None
                phase += 1
            else:
                answer = yield from self._receive(request)
        self.learner.end_round()
        self._refuse_infinities()
        return self._evaluation() if (s + 1) % self.evaluate_every == 0 else None

    def _gather(self, gather: Gather, s: int, phase: int) -> Generator[Reports | Step, Any, list[Reply]]:
        reports: bool = yield Reports()
        orders: list[Order] = []
        results: list[Result] = []
        for number, ask in enumerate(gather.asks):
            asked, done = self._run(ask, [(s, phase)] * len(ask.cohort), s, phase, number, reports)
            orders += asked
            results += done
        if len({order.client for order in orders}) < len(orders):
            raise PolicyError(f"{called(self.policy)}: one Gather asks a client twice; it serves one order at a time")
        outcomes = yield Step("gather", orders, gather.until)
        if self._pacing is not None:
            pairs = zip(results, outcomes, strict=True)
            self._pacing.hear([result for result, outcome in pairs if outcome.fate == "delivered"])
        return [reply for pair in zip(results, outcomes, strict=True) if isinstance(reply := self._end(*pair), Reply)]

    def _gossip(self, ask: Ask, s: int, phase: int) -> Generator[Neighbours | Step, Any, Met]:
        """Nodes work, then send to their neighbours. A node that has computed keeps and remembers what it has."""
        edges: Edges = yield Neighbours()
        orders, results = self._run(ask, [(s, phase)] * len(ask.cohort), s, phase, 0)
        outcomes: list[Outcome] = yield Step("gossip", orders, None, edges)
        computed = {outcome.client for outcome in outcomes if outcome.computed}
        own = {result.client: result for result in results if result.client in computed}
        for result in own.values():
            self.learner.keep(result)
            self.learner.commit(result)
        sent = {node: Reply(node, result.items, result.given) for node, result in own.items()}
        heard = frozenset((o.client, o.peer) for o in outcomes if o.fate == "delivered" and o.peer is not None)
        return Met(sent, edges, heard)

    def _send(self, ask: Ask, s: int, phase: int) -> Generator[Reports | Step, Any, None]:
        reports: bool = yield Reports()
        keys = [(self._sent[i], 0) for i in ask.cohort]
        self._sent.update(ask.cohort)
        orders, results = self._run(ask, keys, s, phase, 0, reports)
        self._under_way += results
        yield Step("send", orders, None)

    def _receive(self, request: Receive) -> Generator[Step, Outcome, Reply | Lost]:
        if not self._under_way:
            raise ValueError("Receive() would wait for ever: no order is under way")
        outcome = yield Step("receive", [], None)
        first = next(i for i, result in enumerate(self._under_way) if result.client == outcome.client)
        return self._end(self._under_way.pop(first), outcome)

    def _run(
        self, ask: Ask, keys: Sequence[tuple[int, int]], s: int, phase: int, number: int, reports: bool = False
    ) -> tuple[list[Order], list[Result]]:
        if strange := [client for client in ask.cohort if not 0 <= client < self.learner.clients]:
            raise ValueError(f"asks client {strange[0]}; there are clients 0 to {self.learner.clients - 1}")
        with blamed(self.policy, f"round {s}", at=lambda: ask.work):
            done = self.learner.run(ask, keys, reports, self._pacing is not None)
        paper_bits = ask.models_up * BITS_PER_VALUE * self.learner.parameters
        orders = [
            Order(
                result.client, s, phase, number, done.shared_bits, done.each_bits, result.up_bits,
                result.forward_samples, result.backward_samples, paper_bits,
                result.forward_steps, result.backward_steps, 0, result.adapt_bits, result.adapt_samples,
            )
            for result in done.results
        ]  # fmt: skip
        if reports:
            orders = [self._with_report(*pair) for pair in zip(orders, done.results, strict=True)]
        return orders, done.results

    def _with_report(self, order: Order, result: Result) -> Order:
        """The order of a client that also reports its loss, if it trained: one scalar more on the uplink."""
        if not order.backward_samples:
            return order
        utility = self.learner.samples[order.client] * result.loss_rms
        return order._replace(up_bits=order.up_bits + BITS_PER_VALUE, utility=utility)

    def _end(self, result: Result, outcome: Outcome) -> Reply | Lost:
        """What stays on the device stays when it has computed; what the server relies on, when it has arrived."""
        if outcome.computed:
            self.learner.keep(result)
        if outcome.fate != "delivered":
            return Lost(outcome.client, outcome.fate)
        self.learner.commit(result)
        for name, item in result.items.items():
            # Scalars only: a policy may compute with a loss at once, while models are looked at when the round is over.
            if isinstance(item, torch.Tensor) and item.ndim == 0 and not math.isfinite(item):
                raise self._diverged(f"the {name} of client {result.client} is not finite")
        return Reply(result.client, result.items, result.given)

    def _evaluation(self) -> Evaluation:
        with blamed(self.policy, "model", at=lambda: self.policy.model):
            accuracy, loss = self.learner.evaluate(lambda me: self.policy.model(self.state, me))
        for client, value in enumerate(loss):
            if value is not None and not math.isfinite(value):  # a finite model may still overflow on an image
                raise self._diverged(f"the test loss of client {client} is not finite")
        lam = getattr(self.state, "lam", None)
        cluster, since = (
            None if held is None else [int(entry) if entry >= 0 else None for entry in held]
            for held in (getattr(self.state, name, None) for name in ("cluster", "since"))
        )
        own = None if lam is None else [float(entry) for entry in lam]
        return Evaluation(accuracy, loss, own, cluster, since, *self._around_the_mean())

    def _around_the_mean(self) -> tuple[list[float | None] | None, list[float] | None]:
        """Where there is no server: the mean model's accuracy for each client, and the distance of its own from it."""
        if not self.policy.decentralised:
            return None, None
        theta: torch.Tensor = self.state.w
        mean = theta.mean(0)
        accuracy, _ = self.learner.evaluate(lambda me: mean)
        return accuracy, [float(distance) for distance in (theta - mean).norm(dim=1)]

    def _refuse_infinities(self) -> None:
        for field in fields(self.state):
            held = getattr(self.state, field.name)
            if isinstance(held, np.ndarray):
                held = torch.from_numpy(held)
            if isinstance(held, torch.Tensor) and held.is_floating_point() and not held.sum().isfinite():
                raise self._diverged(f"{field.name} is no longer finite")

    def _diverged(self, what: str) -> Diverged:
        return Diverged(
            f"{called(self.policy)}: {what} in round {self._s}; "
            f"usual cure: a smaller eta, or (FedDyn, DRDM) a larger mu with mu*eta*tau <= 1"
        )

    def snapshot(self) -> dict[str, Any]:
        """All that learning needs to go on, as plain containers and tensors."""
        return {
            "state": pack({field.name: getattr(self.state, field.name) for field in fields(self.state)}),
            "under_way": [pack(result) for result in self._under_way],
            "sent": dict(self._sent),
            "learner": self.learner.snapshot(),
            **({} if self._pacing is None else {"pacing": self._pacing.snapshot()}),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `snapshot`."""
        self.state = type(self.state)(**unpack(saved["state"]))
        self._under_way = [Result(**unpack(result)) for result in saved["under_way"]]
        self._sent = Counter(saved["sent"])
        self.learner.restore(saved["learner"])
        if self._pacing is not None:
            self._pacing.restore(saved["pacing"])


def pack(value: Any) -> Any:
    """Numpy arrays and dataclasses in terms of what `torch.load(weights_only=True)` accepts."""
    if isinstance(value, np.ndarray):
        return {"numpy": torch.from_numpy(value.copy())}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: pack(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: pack(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(pack(entry) for entry in value)
    return value


def unpack(value: Any) -> Any:
    """Inverse of `pack`, except that a dataclass stays a dict."""
    if isinstance(value, dict):
        if value.keys() == {"numpy"}:
            return value["numpy"].numpy()
        return {key: unpack(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(unpack(entry) for entry in value)
    return value
