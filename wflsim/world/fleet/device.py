"""A device carries out one order at a time: receive, compute, transmit. The order is delivered, lost or cut short.

Whatever happens, every second spent is written as a leg with the joules it cost, and the order ends exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any

import simpy

from wflsim.exchange import Fate, Order, Outcome
from wflsim.records import Activity, Leg
from wflsim.rng import stream
from wflsim.world.access.access import Cell
from wflsim.world.access.medium import Flow, Medium
from wflsim.world.channel.loss import Trial, failure_probability, send_attempts
from wflsim.world.channel.radio import Radio
from wflsim.world.fleet.meter import Meter
from wflsim.world.fleet.traits import Traits, paper_transmit_j

Process = Generator[simpy.Event, Any, None]
"""A piece of a SimPy process."""
Waiting = Generator[simpy.Event, Any, str]
"""A piece of a SimPy process that returns the outcome of a wait."""
Report = Callable[[Outcome], None]
FATES: dict[str, Fate] = {"late": "late", "dead": "dead", "dropped": "dropped", "gone": "gone"}
"""The fate of an order by the outcome of its last leg; after any other, it is lost."""


class OrderFailed(Exception):
    """Raised where an order cannot go on, because a leg of it ended with this outcome."""

    def __init__(self, outcome: str) -> None:
        self.fate: Fate = FATES.get(outcome, "lost")


class Device:
    """A client's device: it serves one order at a time and writes every joule down."""

    __slots__ = (
        "_cell", "_env", "_limited", "_me", "_radio", "_seed", "client", "meter", "processor", "saved_j", "serving",
        "traits",
    )  # fmt: skip

    def __init__(
        self, client: int, traits: Traits, env: simpy.Environment, cell: Cell, radio: Radio, meter: Meter, seed: int
    ) -> None:
        self.client = client
        self.traits = traits
        self.meter = meter
        self.processor, self.saved_j = traits.processor, 0.0
        """The processor at the clock of the order under way, and the joules that its clock is planned to save."""
        self.serving: simpy.Process | None = None
        """The process of the order under way; None if the device is idle."""
        self._env = env
        self._cell = cell
        self._radio = radio
        self._seed = seed
        self._me = (client,)
        self._limited = traits.battery_j is not None or traits.hours is not None

    def serve(self, order: Order, broadcast: Flow | None, report: Report) -> Process:
        """Carry out one order and report its outcome; `broadcast` is what the ask shares with others, if anything."""
        computed = False
        fate: Fate = "delivered"
        try:
            self._settle_tail(order)
            if broadcast is not None:
                yield from self._receive(order, broadcast, order.shared_bits)
            if order.each_bits:
                yield from self._receive(order, None, order.each_bits)
            if order.forward_samples:
                yield from self._compute(order)
            computed = True
            if order.up_bits:
                yield from self._transmit(order)
        except OrderFailed as failure:
            fate = failure.fate
        self.meter.accounted_s = self._env.now
        self.serving = None
        report(Outcome(self.client, fate, computed))

    def ready(self, at_s: float) -> bool:
        """Whether it could take an order at this instant: idle, alive, within a window of its availability."""
        return self.serving is None and self.ready_s(at_s) == at_s

    def ready_s(self, at_s: float) -> float:
        """The first instant from this one on at which it could take an order, if it is idle; inf if there is none."""
        hours = self.traits.hours
        while (open_s := at_s if hours is None else hours.opens_s(at_s)) < math.inf:
            if (at_s := self.meter.usable_s(open_s)) in (open_s, math.inf):
                return at_s
        return math.inf

    def why_not(self, at_s: float) -> Fate:
        """Why it cannot take an order at this instant: it serves another, is dead, or away."""
        if self.serving is not None:
            return "dropped"
        return "gone" if self.meter.alive_at(at_s) else "dead"

    def wake_s(self) -> float:
        """Seconds that the modem takes to wake; 0 if it is awake."""
        return self.traits.modem.wake_s if self._env.now >= self.meter.asleep_s else 0.0

    def compute_s(self, order: Order) -> float:
        """Seconds that the computation of an order takes at the scenario's clock."""
        return self.traits.processor.order_s(order)

    def _receive(self, order: Order, flow: Flow | None, bits: int) -> Process:
        """Receive bits: those of a broadcast, or (None) those that are for this client alone."""
        down, modem = self._cell.down, self.traits.modem
        power_w = self.traits.receiving_w
        if modem.tail_s or modem.wake_s:
            yield from self._wake(order, "receive")
        alone = flow is None
        if flow is None:
            flow = down.start(self._me, bits)
        if flow.turn is not None:
            yield from self._wait_for_turn(order, flow.turn, flow, down if alone else None)
        start_s = self._env.now
        outcome = yield from self._wait_for(flow.event, power_w, flow.ends_s)
        duration_s = self._env.now - start_s
        if outcome != "ok":
            bits = min(bits, int(self._cell.heard_bits(flow))) if self.client in flow.clients else 0
            if alone:
                down.stop(flow)
        elif self.client not in flow.clients:
            outcome, bits = "outage", 0
        elif flow.failed:
            outcome, bits = "outage", min(bits, int(self._cell.heard_bits(flow)))
        self._end_leg(
            Leg(
                *self._leg_of(order, "receive", start_s),
                bits=bits,
                snr_db=down.link.snr_db(self.client, flow.band_hz, start_s),
                rate_bps=bits / duration_s if duration_s else None,
                attempts=1,
                energy_j=self.traits.receive_j(duration_s, bits),
                outcome=outcome,
            )
        )

    def _compute(self, order: Order) -> Process:
        """Compute what the order asks for, unless the device drops it on the way."""
        start_s, duration_s, sleep_w = self._env.now, self.processor.order_s(order), self.traits.modem.sleep_w
        power_w = self.processor.active_w
        done = self._env.timeout(duration_s)
        drop_s = self._drop_s(order, duration_s)
        outcome = yield from self._wait_for(done, power_w, start_s + duration_s, drop_s, sleep_w)
        spent_s = duration_s if outcome == "ok" else self._env.now - start_s
        energy_j = power_w * spent_s
        paper_j = energy_j if order.paper_bits else 0.0
        leg = Leg(*self._leg_of(order, "compute", start_s), energy_j=energy_j, paper_j=paper_j, outcome=outcome)
        self._end_leg(leg._replace(saved_j=self.saved_j) if self.saved_j and outcome == "ok" else leg, sleep_w)

    def _transmit(self, order: Order) -> Process:
        """Send the reply up, attempts that fail included."""
        up, modem = self._cell.up, self.traits.modem
        if modem.tail_s or modem.wake_s:
            yield from self._wake(order, "transmit")
        trial: Trial | None = None

        def load_bits(band_hz: float) -> float:
            """Bits on the air, all attempts together, now that it is known on which band the upload begins."""
            nonlocal trial
            trial = self._draw_attempts(order, band_hz)
            return trial.air_bits

        flow = up.start(self._me, float(order.up_bits) if self._radio.lossless else load_bits)
        if flow.turn is not None:
            yield from self._wait_for_turn(order, flow.turn, flow, up)
        start_s = self._env.now
        radiated_w = self._radio.radiated_w(self.client, flow.band_hz, start_s)
        power_w = self.traits.sending_w(radiated_w)
        per_bit_w = modem.transmit_j_per_bit and modem.transmit_j_per_bit * up.link.rate_bps(
            self.client, flow.band_hz, start_s
        )
        outcome = yield from self._wait_for(flow.event, power_w + per_bit_w, flow.ends_s)
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
        self._end_leg(
            Leg(
                *self._leg_of(order, "transmit", start_s),
                bits=bits,
                snr_db=up.link.snr_db(self.client, flow.band_hz, start_s),
                rate_bps=rate_bps,
                attempts=attempts,
                energy_j=self.traits.transmit_j(power_w, duration_s, air_bits),
                radiated_j=radiated_w * duration_s,
                paper_j=paper_transmit_j(radiated_w * (bits / order.up_bits), order.paper_bits, rate_bps or math.inf),
                outcome=outcome,
            )
        )

    def _settle_tail(self, order: Order) -> None:
        """Charge the modem's tail as far as it has come; the order fails if the battery died of it."""
        if self.traits.modem.tail_s:
            self.meter.charge_tail(order.round, order.phase, self._env.now)
            if self.meter.dead:
                raise OrderFailed("dead")

    def _wake(self, order: Order, activity: Activity) -> Process:
        """Wake a sleeping modem, and charge that to the activity for which it wakes."""
        self._settle_tail(order)
        wake_s = self.wake_s()
        if wake_s > 0:
            start_s, power_w = self._env.now, self.traits.waking_w
            awake = self._env.timeout(wake_s)
            outcome = yield from self._wait_for(awake, power_w, start_s + wake_s)
            energy_j = power_w * (self._env.now - start_s)
            self._end_leg(Leg(*self._leg_of(order, activity, start_s), energy_j=energy_j, outcome=outcome))

    def _wait_for_turn(self, order: Order, turn: simpy.Event, flow: Flow, medium: Medium | None) -> Process:
        """Listen until the flow's turn comes. `medium`: where to stop the flow if it never does; None for a broadcast,
        which is not this device's own."""
        if not turn.processed:
            start_s, idle_w, listen_w = self._env.now, self.traits.processor.idle_w, self.traits.modem.listen_w
            outcome = yield from self._wait_for(turn, idle_w, rest_w=listen_w)
            if outcome != "ok" and medium is not None:
                medium.stop(flow)
            if self._env.now > start_s or outcome != "ok":
                energy_j = idle_w * (self._env.now - start_s)
                leg = Leg(*self._leg_of(order, "idle", start_s), energy_j=energy_j, outcome=outcome)
                self._end_leg(leg, listen_w)

    def _draw_attempts(self, order: Order, band_hz: float) -> Trial:
        """The attempts of the upload, keyed by the order, so that they are the same whenever it is carried out."""
        snr = self._cell.up.link.snr(self.client, band_hz, self._env.now)
        probability = failure_probability(self._radio.loss, snr)
        rng = stream(self._seed, "loss", self.client, order.round, order.phase)
        return send_attempts(self._radio.loss, order.up_bits, probability, rng)

    def _drop_s(self, order: Order, duration_s: float) -> float:
        """Simulated time at which the device drops the order in the middle of its work; inf if it does not."""
        if self.traits.dropout == 0:
            return math.inf
        rng = stream(self._seed, "dropout", self.client, order.round, order.phase)
        drops, when = rng.random(2)
        return self._env.now + when * duration_s if drops < self.traits.dropout else math.inf

    def _wait_for(
        self,
        event: simpy.Event,
        power_w: float,
        known_s: float = math.inf,
        drop_s: float = math.inf,
        rest_w: float | None = None,
    ) -> Waiting:
        """Wait for an event at this power; returns ok, or why it was not waited for: late, dead, gone, dropped.

        `known_s`: when the event will happen, if that is known. `drop_s`: when the device drops the order. `rest_w`:
        power of a modem that has nothing to do, after its tail; None: the modem is at work, and its power counted.
        """
        try:
            if not self._limited and drop_s == math.inf:
                yield event
                return "ok"
            now_s = self._env.now
            death_s = self.meter.empty_s(now_s, power_w, rest_w, known_s)
            closes_s = math.inf if self.traits.hours is None else self.traits.hours.closes_s(now_s)
            end_s = min(death_s, closes_s, drop_s)
            if end_s >= known_s or end_s == math.inf:
                yield event
                return "ok"
            yield event | self._env.timeout(end_s - now_s)
            ends = {death_s: "dead", closes_s: "gone"}
            return "ok" if event.processed else ends.get(end_s, "dropped")
        except simpy.Interrupt as interrupt:
            return str(interrupt.cause)

    def _leg_of(self, order: Order, activity: Activity, start_s: float) -> tuple[int, int, int, Activity, float, float]:
        """The first fields of a leg that ends now: round, phase, client, activity, start and end in seconds."""
        return order.round, order.phase, self.client, activity, start_s, self._env.now

    def _end_leg(self, leg: Leg, rest_w: float | None = None) -> None:
        """Write a leg that ends now, with what a modem that rests at `rest_w` draws beside it; the order goes on only
        if it ended well."""
        if rest_w is not None:
            self.meter.charge_tail(leg.round, leg.phase, leg.end_s)
            leg = leg._replace(energy_j=leg.energy_j + self.meter.resting_j(leg.start_s, leg.end_s, rest_w))
        outcome = self.meter.write(leg)
        if leg.activity in ("receive", "transmit"):
            self.meter.begin_tail(leg.end_s)
        if outcome != "ok":
            raise OrderFailed(outcome)
