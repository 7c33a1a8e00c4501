"""A device among its peers: it computes, sends to its neighbours when its turn comes, and listens to them else."""

from __future__ import annotations

from collections.abc import Sequence

from wflsim.exchange import Order
from wflsim.records import Leg
from wflsim.world.access.d2d import Transfer
from wflsim.world.fleet.device import Device, OrderFailed, Process


class Peer(Device):
    """A device that can also work without a server. A failure ends its part in the round; no peer is told of it."""

    __slots__ = ("computed", "heard", "out")

    computed: bool
    """Whether it has finished computing in this round."""
    out: bool
    """Whether it takes no part any more in this round."""
    heard: set[int]
    """Neighbours whose payload it has received in this round."""

    def meet(self) -> None:
        """Begin a round without a server."""
        self.computed, self.out, self.heard = False, False, set()

    def adapt(self, order: Order) -> Process:
        """Compute what the order asks for."""
        if order.forward_samples:
            yield from self._until_failure(self._compute(order))
        self.computed = not self.out

    def tell(self, order: Order, transfers: Sequence[Transfer]) -> Process:
        """Send to neighbours, one transfer after the other, each at its time."""
        yield from self._until_failure(self._tell(order, transfers))

    def listen(self, order: Order, transfers: Sequence[Transfer]) -> Process:
        """Receive what neighbours send meanwhile. A radio that hears several at once is paid for once."""
        yield from self._until_failure(self._listen(order, transfers))

    def _until_failure(self, part: Process) -> Process:
        try:
            yield from part
        except OrderFailed:
            self.out = True
        self.meter.accounted_s = self._env.now

    def _tell(self, order: Order, transfers: Sequence[Transfer]) -> Process:
        modem = self.traits.modem
        for transfer in transfers:
            transfer.cut = True  # until it has ended
        yield from self._wake(order, "transmit")
        for transfer in transfers:
            yield from self._idle_until(order, transfer.start_s)
            start_s, planned_s = self._env.now, transfer.end_s - transfer.start_s
            power_w = self.traits.sending_w(transfer.radiated_w)
            rate_bps = transfer.air_bits / planned_s if planned_s else 0.0
            ended = self._env.timeout(transfer.end_s - start_s)
            outcome = yield from self._wait_for(ended, power_w + modem.transmit_j_per_bit * rate_bps, transfer.end_s)
            duration_s = self._env.now - start_s
            share = 1.0 if outcome == "ok" else duration_s / planned_s
            transfer.cut = outcome != "ok"
            self._end_leg(
                Leg(
                    *self._leg_of(order, "transmit", start_s),
                    bits=int(transfer.bits * share),
                    snr_db=min((snr for snr in transfer.snr_db.values() if snr is not None), default=None),
                    rate_bps=rate_bps or None,
                    attempts=transfer.attempts,
                    energy_j=power_w * duration_s + modem.transmit_j_per_bit * transfer.air_bits * share,
                    radiated_j=transfer.radiated_w * duration_s,
                    paper_j=transfer.radiated_w * share * order.paper_bits / rate_bps if rate_bps else 0.0,
                    outcome=outcome,
                    peer=transfer.receivers[0] if len(transfer.receivers) == 1 else None,
                )
            )

    def _listen(self, order: Order, transfers: Sequence[Transfer]) -> Process:
        modem = self.traits.modem
        power_w = self.traits.processor.idle_w + modem.receive_w
        yield from self._wake(order, "receive")
        coming = sorted(transfers, key=lambda transfer: (transfer.end_s, transfer.sender))
        for number, transfer in enumerate(coming):
            yield from self._idle_until(order, min(other.start_s for other in coming[number:]))
            start_s = self._env.now
            ended = self._env.timeout(transfer.end_s - start_s)
            outcome = yield from self._wait_for(ended, power_w, transfer.end_s)
            bits = transfer.bits
            if outcome != "ok":
                lasted_s = transfer.end_s - transfer.start_s
                bits = int(bits * max(0.0, self._env.now - transfer.start_s) / lasted_s) if lasted_s else 0
            leg = Leg(
                *self._leg_of(order, "receive", min(transfer.start_s, self._env.now)),
                bits=bits,
                snr_db=transfer.snr_db[self.client],
                rate_bps=transfer.air_bits / (transfer.end_s - transfer.start_s)
                if transfer.end_s > transfer.start_s
                else None,
                attempts=1,
                energy_j=power_w * (self._env.now - start_s) + modem.receive_j_per_bit * bits,
                outcome=outcome if outcome != "ok" else transfer.in_vain.get(self.client, "ok"),
                peer=transfer.sender,
            )
            written = self.meter.write(leg)
            self.meter.begin_tail(leg.end_s)
            if outcome != "ok" or written == "dead":
                raise OrderFailed(written)
            if written == "ok":
                self.heard.add(transfer.sender)

    def _idle_until(self, order: Order, at_s: float) -> Process:
        """Listen until the next transfer begins."""
        start_s, idle_w, listen_w = self._env.now, self.traits.processor.idle_w, self.traits.modem.listen_w
        if at_s > start_s:
            outcome = yield from self._wait_for(self._env.timeout(at_s - start_s), idle_w, at_s, rest_w=listen_w)
            energy_j = idle_w * (self._env.now - start_s)
            self._end_leg(Leg(*self._leg_of(order, "idle", start_s), energy_j=energy_j, outcome=outcome), listen_w)
