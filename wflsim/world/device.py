"""One order's story on one device: receive, compute, send; delivered, lost, or cut short.

Whatever happens, every second spent is written as a leg with the joules it cost, and the order ends exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy

from wflsim.exchange import Fate, Order, Outcome
from wflsim.record import Activity, Leg
from wflsim.rng import stream
from wflsim.world.cell import Cell
from wflsim.world.devices import Traits
from wflsim.world.loss import Trial, failure_probability, send_attempts
from wflsim.world.medium import Flow
from wflsim.world.radio import Radio

Story = Generator[simpy.Event, Any, None]
Report = Callable[[Outcome], None]
FATES: dict[str, Fate] = {"lost": "lost", "outage": "lost", "late": "late", "dead": "dead", "dropped": "dropped"}
"""What an order comes to when one of its legs ends like this."""


class Cut(Exception):
    """The order cannot go on."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate


class Device:
    """A client's device: it serves one order at a time and accounts for every joule."""

    def __init__(
        self, client: int, traits: Traits, env: simpy.Environment, cell: Cell, radio: Radio, legs: list[Leg], seed: int
    ) -> None:
        self.client = client
        self.traits = traits
        self.serving: simpy.Process | None = None
        """The order under way."""
        self.accounted_s = 0.0
        """Up to here the device's time is written down or free of charge."""
        self._env = env
        self._cell = cell
        self._radio = radio
        self._legs = legs
        self._seed = seed
        self._me = (client,)

    @property
    def ready(self) -> bool:
        """Could take an order now."""
        return self.serving is None

    def serve(self, order: Order, broadcast: Flow | None, report: Report) -> Story:
        """One order from its first bit to its end; `broadcast` is on the air if the ask shares anything."""
        computed = False
        fate: Fate = "delivered"
        try:
            if broadcast is not None:
                yield from self._receive(order, broadcast, order.shared_bits)
            if order.each_bits:
                yield from self._receive(order, self._cell.down.start(self._me, order.each_bits), order.each_bits)
            if order.forward_samples:
                yield from self._compute(order)
            computed = True
            if order.up_bits:
                yield from self._transmit(order)
        except Cut as cut:
            fate = cut.fate
        self.accounted_s = self._env.now
        self.serving = None
        report(Outcome(self.client, fate, computed))

    def rest(self, round: int, phase: int) -> None:
        """Account for the time since the last activity as idle."""
        start_s, self.accounted_s = self.accounted_s, self._env.now
        energy_j = self.traits.idle_w * (self._env.now - start_s)
        if energy_j > 0:
            self._write(round, phase, "idle", start_s, energy_j, "ok")

    def _receive(self, order: Order, flow: Flow, bits: int) -> Story:
        start_s = self._env.now
        down = self._cell.down
        outcome = yield from self._until(flow.event)
        duration_s = self._env.now - start_s
        if outcome != "ok":
            bits = min(bits, int(down.stop(flow)))
        elif flow.outage or self.client not in flow.clients:
            outcome, bits = "outage", 0
        self._write(
            order.round, order.phase, "receive", start_s, self.traits.receive_w * duration_s, outcome,
            bits, down.link.snr_db(self.client, flow.band_hz, start_s), bits / duration_s if duration_s else None, 1,
        )  # fmt: skip
        self._go_on_if(outcome)

    def _compute(self, order: Order) -> Story:
        start_s = self._env.now
        # A loss costs a forward pass, a training sample three times that: in training samples, 1/3 and 1.
        samples = (order.forward_samples + 2 * order.backward_samples) / 3
        duration_s = samples * self.traits.s_per_sample
        energy_j = samples * self.traits.j_per_sample
        outcome = yield from self._until(self._env.timeout(duration_s))
        if outcome != "ok":
            energy_j *= (self._env.now - start_s) / duration_s
        self._write(
            order.round, order.phase, "compute", start_s, energy_j, outcome,
            paper_j=energy_j if order.paper_bits else 0.0,
        )  # fmt: skip
        self._go_on_if(outcome)

    def _transmit(self, order: Order) -> Story:
        start_s = self._env.now
        up, traits = self._cell.up, self.traits
        trial = self._try(order)
        flow = up.start(self._me, trial.air_bits)
        outcome = yield from self._until(flow.event)
        duration_s = self._env.now - start_s
        progress = 1.0
        if outcome != "ok" or flow.outage:
            progress = min(1.0, up.stop(flow) / trial.air_bits)
            outcome = "outage" if flow.outage else outcome
        elif not trial.delivered:
            outcome = "lost"
        rate_bps = progress * trial.air_bits / duration_s if duration_s else None
        radiated_w = self._radio.radiated_w(self.client, flow.band_hz, start_s)
        self._write(
            order.round, order.phase, "transmit", start_s,
            (radiated_w / traits.amplifier_efficiency + traits.circuit_w) * duration_s, outcome,
            int(progress * order.up_bits), up.link.snr_db(self.client, flow.band_hz, start_s), rate_bps, trial.attempts,
            radiated_w * duration_s, radiated_w * progress * order.paper_bits / rate_bps if rate_bps else 0.0,
        )  # fmt: skip
        self._go_on_if(outcome)

    def _try(self, order: Order) -> Trial:
        """Drawn before sending and keyed by the order, so that it is the same whenever the order is carried out."""
        if self._radio.lossless:
            return Trial(1, float(order.up_bits), True)
        up = self._cell.up
        probability = failure_probability(self._radio.loss, up.link.snr(self.client, up.band_hz, self._env.now))
        rng = stream(self._seed, "loss", self.client, order.round, order.phase)
        return send_attempts(self._radio.loss, order.up_bits, probability, rng)

    def _until(self, event: simpy.Event) -> Generator[simpy.Event, Any, str]:
        """Wait for the event; returns ok, or why it was not to be."""
        try:
            yield event
        except simpy.Interrupt as interrupt:
            return str(interrupt.cause)
        return "ok"

    def _go_on_if(self, outcome: str) -> None:
        if outcome != "ok":
            raise Cut(FATES[outcome])

    def _write(
        self,
        round: int,
        phase: int,
        activity: Activity,
        start_s: float,
        energy_j: float,
        outcome: str,
        bits: int = 0,
        snr_db: float | None = None,
        rate_bps: float | None = None,
        attempts: int = 0,
        radiated_j: float = 0.0,
        paper_j: float = 0.0,
    ) -> None:
        self._legs.append(
            Leg(
                round, phase, self.client, activity, start_s, self._env.now, bits, snr_db, rate_bps, attempts,
                energy_j, radiated_j, paper_j, outcome,
            )
        )  # fmt: skip
