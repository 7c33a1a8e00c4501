"""One order's story on one device: receive, compute, send; delivered, lost, or cut short.

Whatever happens, every second spent is written as a leg with the joules it cost, and the order ends exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any

import simpy

from wflsim.exchange import Fate, Order, Outcome
from wflsim.record import Activity
from wflsim.rng import stream
from wflsim.world.cell import Cell
from wflsim.world.devices import Traits
from wflsim.world.energy import Meter
from wflsim.world.loss import Trial, failure_probability, send_attempts
from wflsim.world.medium import Flow, Medium
from wflsim.world.radio import Radio

Story = Generator[simpy.Event, Any, None]
Ending = Generator[simpy.Event, Any, str]
Report = Callable[[Outcome], None]
FATES: dict[str, Fate] = {"lost": "lost", "outage": "lost", "late": "late", "dead": "dead", "dropped": "dropped"}
"""What an order comes to when one of its legs ends like this."""


class Cut(Exception):
    """The order cannot go on."""

    def __init__(self, outcome: str) -> None:
        self.fate = FATES[outcome]


class Device:
    """A client's device: it serves one order at a time and accounts for every joule."""

    __slots__ = ("_cell", "_env", "_limited", "_me", "_radio", "_seed", "client", "meter", "serving", "traits")

    def __init__(
        self, client: int, traits: Traits, env: simpy.Environment, cell: Cell, radio: Radio, meter: Meter, seed: int
    ) -> None:
        self.client = client
        self.traits = traits
        self.meter = meter
        self.serving: simpy.Process | None = None
        """The order under way."""
        self._env = env
        self._cell = cell
        self._radio = radio
        self._seed = seed
        self._me = (client,)
        self._limited = traits.battery_j is not None or traits.hours is not None

    def serve(self, order: Order, broadcast: Flow | None, report: Report) -> Story:
        """One order from its first bit to its end; `broadcast` is on the air if the ask shares anything."""
        computed = False
        fate: Fate = "delivered"
        try:
            if broadcast is not None:
                yield from self._receive(order, broadcast, order.shared_bits)
            if order.each_bits:
                yield from self._receive(order, None, order.each_bits)
            if order.forward_samples:
                yield from self._compute(order)
            computed = True
            if order.up_bits:
                yield from self._transmit(order)
        except Cut as cut:
            fate = cut.fate
        self.meter.accounted_s = self._env.now
        self.serving = None
        report(Outcome(self.client, fate, computed))

    def ready(self, at_s: float) -> bool:
        """Could take an order then: idle, alive, in its window."""
        return self.serving is None and self.ready_s(at_s) == at_s

    def ready_s(self, at_s: float) -> float:
        """The first instant from this one on at which it could, once it is idle; inf if it is dead by then."""
        open_s = at_s if self.traits.hours is None else self.traits.hours.opens_s(at_s)
        return open_s if open_s < math.inf and self.meter.alive_at(open_s) else math.inf

    def wake_s(self) -> float:
        """How long the radio takes to wake, if it sleeps."""
        return self.traits.promotion_s if self._env.now >= self.meter.asleep_s else 0.0

    def compute_s(self, order: Order) -> float:
        """How long the order's work takes."""
        return training_samples(order) * self.traits.s_per_sample

    def _receive(self, order: Order, flow: Flow | None, bits: int) -> Story:
        """What comes down: of a broadcast, or (None) for this client alone."""
        down, traits = self._cell.down, self.traits
        if traits.tail_s or traits.promotion_s:
            yield from self._wake(order, "receive")
        alone = flow is None
        if flow is None:
            flow = down.start(self._me, bits)
        if flow.turn is not None:
            yield from self._wait_for_turn(order, flow.turn, flow, down if alone else None)
        start_s = self._env.now
        outcome = yield from self._until(flow.event, traits.receive_w, flow.ends_s)
        duration_s = self._env.now - start_s
        if outcome != "ok":
            bits = min(bits, int(self._cell.heard_bits(flow))) if self.client in flow.clients else 0
            if alone:
                down.stop(flow)
        elif self.client not in flow.clients:
            outcome, bits = "outage", 0
        elif flow.failed:
            outcome, bits = "outage", min(bits, int(self._cell.heard_bits(flow)))
        self._write(
            order, "receive", start_s, traits.receive_w * duration_s + traits.receive_j_per_bit * bits, outcome,
            bits, down.link.snr_db(self.client, flow.band_hz, start_s), bits / duration_s if duration_s else None, 1,
        )  # fmt: skip

    def _compute(self, order: Order) -> Story:
        start_s = self._env.now
        samples = training_samples(order)
        duration_s = samples * self.traits.s_per_sample
        energy_j = samples * self.traits.j_per_sample
        done = self._env.timeout(duration_s)
        power_w = energy_j / duration_s if duration_s else 0.0
        give_up_s = self._gives_up_s(order, duration_s)
        outcome = yield from self._until(done, power_w, start_s + duration_s, give_up_s)
        if outcome != "ok" and duration_s:
            energy_j *= (self._env.now - start_s) / duration_s
        paper_j = energy_j if order.paper_bits else 0.0
        self._write(order, "compute", start_s, energy_j, outcome, paper_j=paper_j)

    def _transmit(self, order: Order) -> Story:
        up, traits = self._cell.up, self.traits
        if traits.tail_s or traits.promotion_s:
            yield from self._wake(order, "transmit")
        trial: Trial | None = None

        def load_bits(band_hz: float) -> float:
            """Bits on the air, all attempts together, as soon as it is known on which band the upload begins."""
            nonlocal trial
            trial = self._try(order, band_hz)
            return trial.air_bits

        flow = up.start(self._me, float(order.up_bits) if self._radio.lossless else load_bits)
        if flow.turn is not None:
            yield from self._wait_for_turn(order, flow.turn, flow, up)
        start_s = self._env.now
        radiated_w = self._radio.radiated_w(self.client, flow.band_hz, start_s)
        power_w = traits.sending_w(radiated_w)
        per_bit_w = traits.transmit_j_per_bit and traits.transmit_j_per_bit * up.link.rate_bps(
            self.client, flow.band_hz, start_s
        )
        outcome = yield from self._until(flow.event, power_w + per_bit_w, flow.ends_s)
        duration_s = self._env.now - start_s
        air_bits = flow.bits
        if outcome != "ok":
            air_bits = min(flow.bits, up.moved_bits(flow))
            up.stop(flow)
        elif flow.failed:
            outcome, air_bits = "outage", min(flow.bits, up.moved_bits(flow))
        elif trial is not None and not trial.delivered:
            outcome = "lost"
        if outcome == "ok":
            bits, attempts = order.up_bits, 1 if trial is None else trial.attempts
        else:
            bits, attempts = (int(air_bits), int(air_bits > 0)) if trial is None else trial.sent(air_bits)
        rate_bps = air_bits / duration_s if duration_s else None
        self._write(
            order, "transmit", start_s, power_w * duration_s + traits.transmit_j_per_bit * air_bits, outcome,
            bits, up.link.snr_db(self.client, flow.band_hz, start_s), rate_bps, attempts, radiated_w * duration_s,
            radiated_w * (bits / order.up_bits) * order.paper_bits / rate_bps if rate_bps else 0.0,
        )  # fmt: skip

    def _wake(self, order: Order, activity: Activity) -> Story:
        """A radio that sleeps is promoted first, which is charged to what it is promoted for."""
        self.meter.write_tail(order.round, order.phase, self._env.now)
        if self.meter.dead:  # of the tail, which ran beside the computation
            raise Cut("dead")
        wake_s = self.wake_s()
        if wake_s > 0:
            start_s = self._env.now
            awake = self._env.timeout(wake_s)
            outcome = yield from self._until(awake, self.traits.promotion_w, start_s + wake_s)
            energy_j = self.traits.promotion_w * (self._env.now - start_s)
            self._write(order, activity, start_s, energy_j, outcome)

    def _wait_for_turn(self, order: Order, turn: simpy.Event, flow: Flow, medium: Medium | None) -> Story:
        """`medium`: where to take the flow back if the turn never comes; None if it is not this device's own."""
        if not turn.processed:
            start_s = self._env.now
            outcome = yield from self._until(turn, self.traits.idle_w)
            if outcome != "ok" and medium is not None:
                medium.stop(flow)
            if self._env.now > start_s or outcome != "ok":
                self._write(order, "idle", start_s, self.traits.idle_w * (self._env.now - start_s), outcome)

    def _try(self, order: Order, band_hz: float) -> Trial:
        """Drawn before sending and keyed by the order, so that it is the same whenever the order is carried out."""
        snr = self._cell.up.link.snr(self.client, band_hz, self._env.now)
        probability = failure_probability(self._radio.loss, snr)
        rng = stream(self._seed, "loss", self.client, order.round, order.phase)
        return send_attempts(self._radio.loss, order.up_bits, probability, rng)

    def _gives_up_s(self, order: Order, duration_s: float) -> float:
        """When the device drops the order in the middle of its work; mostly never."""
        if self.traits.dropout == 0:
            return math.inf
        rng = stream(self._seed, "dropout", self.client, order.round, order.phase)
        drops, when = rng.random(2)
        return self._env.now + when * duration_s if drops < self.traits.dropout else math.inf

    def _until(
        self, event: simpy.Event, power_w: float, known_s: float = math.inf, give_up_s: float = math.inf
    ) -> Ending:
        """Wait for the event (at `known_s`, if that is known); returns ok, or why not: late, dead, dropped."""
        try:
            if not self._limited and give_up_s == math.inf:
                yield event
                return "ok"
            now_s = self._env.now
            death_s = now_s + self.meter.left_j / power_w if power_w > 0 else math.inf
            closes_s = math.inf if self.traits.hours is None else self.traits.hours.closes_s(now_s)
            end_s = min(death_s, closes_s, give_up_s)
            if end_s >= known_s or end_s == math.inf:
                yield event
                return "ok"
            yield event | self._env.timeout(end_s - now_s)
            return "ok" if event.processed else "dead" if end_s == death_s else "dropped"
        except simpy.Interrupt as interrupt:
            return str(interrupt.cause)

    def _write(
        self,
        order: Order,
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
        """The leg that ends now; the story goes on only if it ended well."""
        now_s, meter = self._env.now, self.meter
        outcome = meter.write(
            order.round, order.phase, activity, start_s, now_s, energy_j, outcome,
            bits, snr_db, rate_bps, attempts, radiated_j, paper_j,
        )  # fmt: skip
        if activity in ("receive", "transmit"):
            meter.stay_awake(now_s)
        if outcome != "ok":
            raise Cut(outcome)


def training_samples(order: Order) -> float:
    """An order's work in training samples: a loss costs a forward pass, a training sample three times that."""
    return (order.forward_samples + 2 * order.backward_samples) / 3
