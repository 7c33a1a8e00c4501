"""The world as the driver sees it: orders go in, simulated time passes, outcomes and legs come out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from wflsim.errors import Exhausted
from wflsim.exchange import Draw, Order, Outcome, Until, Weights
from wflsim.record import Leg
from wflsim.world.cell import Cell
from wflsim.world.device import Device, Report
from wflsim.world.devices import build_fleet
from wflsim.world.medium import Flow
from wflsim.world.radio import Radio
from wflsim.world.server import Phase
from wflsim.world.spec import WorldSpec, influences

__all__ = ["World", "WorldSpec", "influences"]


class World:
    """One cell with its clients and one clock. Deterministic: same spec, seed and calls, same answers bit for bit."""

    def __init__(self, spec: WorldSpec, clients: int, seed: int, flops_per_sample: float = 0.0) -> None:
        self._env = simpy.Environment()
        self._legs: list[Leg] = []
        radio = Radio(spec.radio, spec.cell, seed)
        self._cell = Cell(spec.cell, self._env, radio)
        fleet = build_fleet(spec.devices, clients, seed, flops_per_sample)
        self._devices = [
            Device(client, traits, self._env, self._cell, radio, self._legs, seed)
            for client, traits in enumerate(fleet)
        ]
        self._until = spec.server.until()
        self._aggregation_s = spec.server.aggregation
        self._blind = spec.server.loss_detection == "deadline"
        self._idle_counts_for_all = spec.server.idle == "all"
        self._under_way = 0
        self._arrived: deque[Outcome] = deque()
        self._arrival: simpy.Event | None = None
        self._round = 0
        """Of the latest order: where idle time between phases belongs."""

    @property
    def now_s(self) -> float:
        """Simulated seconds since the beginning."""
        return float(self._env.now)

    def eligible(self) -> list[int]:
        """Clients that could take an order now; if there are none, the clock jumps to when there are."""
        if not self._wait_for_any(range(len(self._devices))):
            raise Exhausted("nobody can ever serve again")
        ready = [device.client for device in self._devices if device.ready]
        # To the server, a client whose reply lies unread is still at work.
        unread = {outcome.client for outcome in self._arrived}
        return [client for client in ready if client not in unread] or ready

    def select(self, draw: Draw, race: NDArray[np.float64], eligible: list[int]) -> tuple[list[int], Weights] | None:
        """The world's own choice of a cohort, or None where it has no opinion."""
        return None

    def gather(self, orders: Sequence[Order], until: Until | None) -> list[Outcome]:
        """Carry out all orders concurrently until they have ended or the rule says so; one outcome each, in order."""
        self._wait_for_any([order.client for order in orders])
        until = self._until if until is None else until
        phase = Phase(self._env, len(orders), until, self._blind)
        broadcasts = self._broadcast(orders)
        processes = [
            self._start(order, broadcasts.get(order.ask), partial(phase.report, slot))
            for slot, order in enumerate(orders)
        ]
        self._env.run(phase.over)
        for process in processes:
            if process is not None and process.is_alive:
                process.interrupt("late")
        self._let_the_instant_pass()
        for order, process in zip(orders, processes, strict=True):
            if process is not None:
                self._devices[order.client].rest(order.round, order.phase)
        return phase.verdict()

    def send(self, orders: Sequence[Order]) -> None:
        """Start orders and return at once; `receive` says how each ends."""
        self._wait_for_any([order.client for order in orders])
        broadcasts = self._broadcast(orders)
        for order in orders:
            self._under_way += 1
            process = self._start(order, broadcasts.get(order.ask), self._arrive)
            if process is not None and self._until.deadline_s is not None:
                self._env.process(self._interrupt_after(self._until.deadline_s, process))

    def receive(self) -> Outcome:
        """Let time pass until the next sent order ends."""
        if not self._arrived:
            if not self._under_way:
                raise Exhausted("no order is under way, so none can end")
            self._run_until_next_arrival()
        return self._arrived.popleft()

    def end_round(self) -> None:
        """The server aggregates."""
        if self._aggregation_s > 0:
            self._env.run(self._env.now + self._aggregation_s)
        if self._idle_counts_for_all:
            for device in self._devices:
                if device.serving is None:
                    device.rest(self._round, 0)

    def take_legs(self) -> list[Leg]:
        """Legs finished since the last call, in the order in which they ended."""
        legs = self._legs[:]
        self._legs.clear()
        return legs

    def _broadcast(self, orders: Sequence[Order]) -> dict[int, Flow]:
        """Put on the air what the orders of each ask share."""
        receivers: dict[int, list[int]] = {}
        bits: dict[int, int] = {}
        for order in orders:
            if order.shared_bits and self._devices[order.client].ready:
                receivers.setdefault(order.ask, []).append(order.client)
                bits[order.ask] = order.shared_bits
        return {ask: self._cell.broadcast(clients, bits[ask], 0.0) for ask, clients in receivers.items()}

    def _start(self, order: Order, broadcast: Flow | None, report: Report) -> simpy.Process | None:
        """Let the client begin; one that cannot serve ends the order at once, without a leg."""
        device = self._devices[order.client]
        self._round = order.round
        if not device.ready:
            report(Outcome(order.client, "dropped", computed=False))
            return None
        if self._idle_counts_for_all:
            device.rest(order.round, order.phase)
        device.serving = self._env.process(device.serve(order, broadcast, report))
        return device.serving

    def _arrive(self, outcome: Outcome) -> None:
        self._under_way -= 1
        self._arrived.append(outcome)
        if self._arrival is not None and not self._arrival.triggered:
            self._arrival.succeed()

    def _wait_for_any(self, clients: Sequence[int]) -> bool:
        """Let time pass until one of these clients can take an order; False if none ever can.

        `gather` and `send` wait as `eligible` does: a replayed run gives the same orders without asking who is there.
        """
        while not any(self._devices[client].ready for client in clients):
            if not self._under_way:
                return False
            self._run_until_next_arrival()
        return True

    def _run_until_next_arrival(self) -> None:
        self._arrival = self._env.event()
        self._env.run(self._arrival)

    def _interrupt_after(self, deadline_s: float, process: simpy.Process) -> Any:
        yield self._env.timeout(deadline_s)
        yield self._env.timeout(0)
        if process.is_alive:
            process.interrupt("late")

    def _let_the_instant_pass(self) -> None:
        """Interrupted devices write their last leg at this very instant."""
        self._env.run(self._env.timeout(0))
