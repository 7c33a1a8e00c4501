"""The world, a carrier in simulated time: orders go in, time passes, outcomes and legs come out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from wflsim.errors import Exhausted
from wflsim.exchange import Draw, Edges, Order, Outcome, Until, Weights
from wflsim.questions import Allotment, Pace
from wflsim.records import FleetRow, Leg
from wflsim.world.access.access import Broadcast, Cell
from wflsim.world.access.d2d import PeerLinks
from wflsim.world.bounds import Clock, collector_paused
from wflsim.world.channel.radio import Radio
from wflsim.world.expected import expected_uploads
from wflsim.world.fleet.compute import REFERENCE_FLOPS
from wflsim.world.fleet.device import Report
from wflsim.world.fleet.meter import Meter
from wflsim.world.fleet.peer import Peer
from wflsim.world.fleet.roster import call_roster, fleet_rows
from wflsim.world.gossip import Meeting
from wflsim.world.just_in_time import refuse_just_in_time, slow_down
from wflsim.world.pacer import Pacer, steps_within
from wflsim.world.plausible import refuse_power
from wflsim.world.selection import Selection
from wflsim.world.server import NO_STEP, Phase
from wflsim.world.spec import WorldSpec, graph_of, influences

__all__ = ["World", "WorldSpec", "influences"]


class World:
    """One radio cell with its clients and one clock; same spec, seed and calls, same answers bit for bit."""

    def __init__(
        self,
        spec: WorldSpec,
        clients: int,
        seed: int,
        flops_per_sample: float = REFERENCE_FLOPS,
        samples: Sequence[int] | None = None,
    ) -> None:
        """`flops_per_sample`: forward FLOPs of the model on one sample, from which computing times follow. `samples`:
        training samples of each client, with which devices may be correlated; None: not known."""
        self._env = Clock()
        self._legs: list[Leg] = []
        self._until = spec.server.until()
        self._budget_s = spec.server.compute_budget
        self._aggregation_s = spec.server.aggregation
        self._blind = spec.server.loss_detection == "deadline"
        self._idle_counts = spec.server.idle == "all"
        fleet, place, powers_w = roster = call_roster(spec, clients, seed, flops_per_sample, samples)
        self._fleet_rows = partial(fleet_rows, spec, roster, samples)
        radio = Radio(spec.radio, place, seed, powers_w)
        refuse_power(fleet, spec, radio)
        self._radio = radio
        self._graph = partial(graph_of, spec, clients, seed)
        self._peer_links = partial(PeerLinks, spec.d2d, spec.radio, radio, place, clients, seed)
        self._links: PeerLinks | None = None
        """Links between the clients; None until a policy without a server needs them."""
        self._cell = Cell(spec.cell, self._env, radio)
        meters = [Meter(client, traits, self._legs, self._idle_counts) for client, traits in enumerate(fleet)]
        self._devices = [
            Peer(client, traits, self._env, self._cell, radio, meters[client], seed)
            for client, traits in enumerate(fleet)
        ]
        self._selection = Selection(spec.server, self._devices, self._cell, radio)
        self._pacer: Pacer | None = None
        """The controller of tau; None until a policy asks it."""
        self._under_way = 0
        self._arrived: deque[Outcome] = deque()
        self._arrival = self._env.event()
        self._round = 0
        """Round of the latest order, to which idle time between phases belongs."""

    @property
    def now_s(self) -> float:
        """Simulated time in seconds since the beginning."""
        return float(self._env.now)

    @property
    def reports(self) -> bool:
        """Whether training clients are to report their loss with each upload."""
        return self._selection.oort is not None

    @property
    def planned_s(self) -> float | None:
        """Seconds that the selector has planned for the latest phase; None if it plans none."""
        return self._selection.planned_s

    @property
    def fleet(self) -> list[FleetRow]:
        """Who has which device: the rows of fleet.csv."""
        return self._fleet_rows()

    def eligible(self) -> list[int]:
        """Clients that could take an order now; if there are none, the clock jumps to when there are some."""
        if not self._wait_for_any(range(len(self._devices))):
            dead = sum(not device.meter.alive_at(self.now_s) for device in self._devices)
            raise Exhausted(
                f"nobody can serve any more after {self.now_s:.6g} s: of {len(self._devices)} clients, "
                f"{dead} have an empty battery, and no window of the others opens again"
            )
        return [device.client for device in self._devices if device.ready(self._env.now)]

    def select(self, draw: Draw, race: NDArray[np.float64], eligible: list[int]) -> tuple[list[int], Weights] | None:
        """The world's own choice of a cohort, with its weights; None where the policy chooses."""
        return self._selection.select(draw, race, eligible, self.now_s)

    def allot(self, asked: Allotment) -> dict[int, int]:
        """The steps that each client may take; as many of them as fit into the budget, where the scenario sets one.

        For whom none fits, a leg of no length says so in the tables.
        """
        taken = steps_within(self._budget_s, asked, lambda i, b: self._devices[i].traits.processor.step_s(b))
        none = Leg(asked.round, asked.phase, 0, "compute", self.now_s, self.now_s, outcome=NO_STEP)
        self._legs += [none._replace(client=client) for client in asked.steps if client not in taken]
        return taken

    def pace(self, asked: Pace) -> int:
        """Local steps of the round that begins, by the controller of tau; Exhausted when its budget is used up."""
        self._pacer = self._pacer or Pacer()
        return self._pacer.tau(asked, self.now_s)

    def gather(self, orders: Sequence[Order], until: Until | None) -> list[Outcome]:
        """Carry out all orders of a phase concurrently, until they have ended or the server stops waiting.

        Returns one outcome per order, in their order. `until=None`: the scenario's rule.
        """
        if wait_s := self._selection.wait_s(len(orders)):
            self._env.run(self._env.timeout(wait_s))
            self._selection.refuse_empty()
        self._wait_for_any([order.client for order in orders])
        if self._pacer is not None:
            self._pacer.give(orders)
        began_s = self._env.now
        phase = Phase(self._env, len(orders), self._until if until is None else until, self._blind)
        broadcasts = self._broadcast(orders)
        self._cell.plan(expected_uploads(orders, self._devices, self._cell, self._radio, broadcasts))
        slow_down(orders, self._devices, self._cell, broadcasts, self._until if until is None else until)
        with collector_paused():
            hearing = partial(self._selection.hearing, lambda: self._env.now, began_s)
            processes = [
                self._start(order, broadcasts.get(order.ask), hearing(partial(phase.report, slot), order))
                for slot, order in enumerate(orders)
            ]
            self._env.run(phase.over)
            for process in processes:
                if process is not None and process.is_alive:
                    process.interrupt("late")
            for broadcast in broadcasts.values():
                self._cell.end_broadcast(broadcast)
            self._env.run(self._env.timeout(0))  # the instant passes: interrupted devices write their last leg
        for order, process in zip(orders, processes, strict=True):
            if process is not None:
                device = self._devices[order.client]
                device.meter.charge_idle(order.round, order.phase, self._env.now, device.traits.modem.listen_w)
        return phase.verdict()

    def send(self, orders: Sequence[Order]) -> None:
        """Start orders and return at once; `receive` tells how each ends."""
        self._cell.refuse_plans()
        refuse_just_in_time(self._devices, "an asynchronous policy has none")
        self._wait_for_any([order.client for order in orders])
        broadcasts = self._broadcast(orders)
        for order in orders:
            self._under_way += 1
            report = self._selection.hearing(lambda: self._env.now, self._env.now, self._arrive, order)
            process = self._start(order, broadcasts.get(order.ask), report)
            if process is not None and self._until.deadline_s is not None:
                self._env.process(self._interrupt_after(self._until.deadline_s, process))

    def receive(self) -> Outcome:
        """Let time pass until the next order that was sent ends, and return its outcome."""
        if not self._arrived:
            if not self._under_way:
                raise Exhausted("no order is under way, so none can end")
            self._env.run(self._next_arrival())
        return self._arrived.popleft()

    def neighbours(self) -> Edges:
        """The graph of peers."""
        return self._graph()

    def gossip(self, orders: Sequence[Order], edges: Edges) -> list[Outcome]:
        """Let all nodes compute and send to their neighbours; one outcome per link, in their order."""
        if self._links is None or self._links.edges != edges:
            self._links = self._peer_links(edges)
        self._round = orders[0].round
        refuse_just_in_time(self._devices, "a policy without a server has none")
        self.eligible()
        with collector_paused():
            return Meeting(self._env, self._devices, self._links, orders).hold(edges)

    def end_round(self) -> None:
        """Let the server's aggregation pass and, where all idle time counts, charge it."""
        if self._selection.oort is not None:
            self._selection.oort.end_round()
        if self._aggregation_s > 0:
            self._env.run(self._env.timeout(self._aggregation_s))
        if self._pacer is not None:
            self._pacer.end_round(self._legs)
        if self._idle_counts:
            for device in self._devices:
                if device.serving is None:
                    device.meter.charge_idle(self._round, 0, self._env.now)

    def take_legs(self) -> list[Leg]:
        """Legs finished since the last call, in the order in which they ended."""
        legs = self._legs[:]
        self._legs.clear()
        return legs

    def _broadcast(self, orders: Sequence[Order]) -> dict[int, Broadcast]:
        """Start the broadcasts of what orders of one ask share; by ordinal of the ask."""
        receivers: dict[int, list[int]] = {}
        bits: dict[int, int] = {}
        now_s, devices = self._env.now, self._devices
        for order in orders:
            if order.shared_bits and devices[order.client].ready(now_s):
                receivers.setdefault(order.ask, []).append(order.client)
                bits[order.ask] = order.shared_bits
        return {
            ask: self._cell.broadcast(clients, bits[ask], max(devices[client].wake_s() for client in clients))
            for ask, clients in receivers.items()
        }

    def _start(self, order: Order, broadcast: Broadcast | None, report: Report) -> simpy.Process | None:
        """Start an order on its device; None if the device cannot serve: then the order ends at once, without a leg."""
        device, now_s = self._devices[order.client], self._env.now
        self._round = order.round
        self._selection.take_note(order)
        if not device.ready(now_s):
            report(Outcome(order.client, device.why_not(now_s), computed=False))
            return None
        if self._idle_counts:
            device.meter.charge_idle(order.round, order.phase, now_s)
        device.serving = self._env.process(device.serve(order, broadcast, report))
        return device.serving

    def _arrive(self, outcome: Outcome) -> None:
        """Take in the outcome of an order that was sent."""
        self._under_way -= 1
        self._arrived.append(outcome)
        if not self._arrival.triggered:
            self._arrival.succeed()

    def _next_arrival(self) -> simpy.Event:
        """The event of the next outcome of an order that was sent."""
        if self._arrival.triggered:
            self._arrival = self._env.event()
        return self._arrival

    def _wait_for_any(self, clients: Sequence[int]) -> bool:
        """Let time pass until one of these clients can take an order; False if none ever can.

        `gather` and `send` wait as `eligible` does, because a replayed run gives orders without asking who is eligible.
        """
        env = self._env
        if not clients:
            return False
        while not any(self._devices[client].ready(env.now) for client in clients):
            idle = [device for client in clients if (device := self._devices[client]).serving is None]
            opens_s = min((device.ready_s(env.now) for device in idle), default=math.inf)
            if opens_s < math.inf:
                opening = env.timeout(opens_s - env.now)
                env.run(opening | self._next_arrival() if self._under_way else opening)
            elif self._under_way:
                env.run(self._next_arrival())
            else:
                return False
        return True

    def _interrupt_after(self, deadline_s: float, process: simpy.Process) -> Any:
        """Interrupt an order that was sent when its deadline has passed."""
        yield self._env.timeout(deadline_s)
        yield self._env.timeout(0)
        if process.is_alive:
            process.interrupt("late")
