"""Sharing the air: turns, equal shares, the best split. Closed forms to 1e-9, and a plain fluid model for the rest."""

import math

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.optimize import minimize

from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.world.access.makespan import Upload, split_band
from wflsim.world.access.medium import Turns
from wflsim.world.access.ofdma import EqualShare, NoisyShare
from wflsim.world.channel.channel import ConstantChannel
from wflsim.world.channel.link import Link
from wflsim.world.channel.rates import Cqi, Shannon
from wflsim.world.spec import remarks
from wflsim.world.world import World, WorldSpec

BAND_HZ = 1e6


def snr_for(efficiency):
    return 2.0**efficiency - 1


class SteppedChannel:
    """Each client's efficiency is the first of two up to `change_s`, then the second."""

    steady = False

    def __init__(self, efficiencies, change_s):
        self.efficiencies = efficiencies
        self.change_s = self.step_s = change_s

    def snr(self, client, at_s):
        before, after = (snr_for(e) for e in self.efficiencies[client])
        return np.where(at_s < self.change_s, before, after)

    def changes_s(self, start_s, blocks):
        later = [self.change_s] if start_s < self.change_s else []
        return np.array([start_s, *later, math.inf, math.inf][: blocks + 1])

    def highest_snr(self, client):
        return snr_for(max(self.efficiencies[client]))


def finish_times(make, link, flows):
    """flows: (client, start_s, bits). When each ends on a medium of this kind."""
    env = simpy.Environment()
    medium = make(env, link, BAND_HZ)
    ends = {}

    def sender(client, start_s, bits):
        yield env.timeout(start_s)
        flow = medium.start((client,), bits)
        yield flow.event
        ends[client] = env.now

    for flow in flows:
        env.process(sender(*flow))
    env.run()
    return [ends[client] for client, _, _ in flows]


def constant(efficiencies, noise_follows_band=False):
    return Link(ConstantChannel([snr_for(e) for e in efficiencies]), Shannon(), noise_follows_band, patience_s=10.0)


def test_three_flows_under_processor_sharing():
    """Work L/e of 1, 2 and 4 band-megahertz-seconds: ends at 3*1, 3 + 2*1, 5 + 1*2 seconds."""
    ends = finish_times(EqualShare, constant([1, 2, 0.5]), [(0, 0, 1e6), (1, 0, 4e6), (2, 0, 2e6)])
    assert ends == pytest.approx([3, 5, 7], rel=1e-9)


def test_three_flows_with_one_rate_change():
    """Client 1 gets twice as fast at 4 s, when it has sent 1 + 1/2 of its 2 band-seconds: the rest is worth 1/4."""
    channel = SteppedChannel({0: (1, 1), 1: (2, 4), 2: (0.5, 0.5)}, change_s=4.0)
    link = Link(channel, Shannon(), False, 10.0)
    ends = finish_times(EqualShare, link, [(0, 0, 1e6), (1, 0, 4e6), (2, 0, 2e6)])
    assert ends == pytest.approx([3, 4.5, 6.75], rel=1e-9)


def test_a_late_flow_slows_the_first():
    ends = finish_times(EqualShare, constant([1, 1]), [(0, 0, 3e6), (1, 1, 1e6)])
    assert ends == pytest.approx([4, 3], rel=1e-9)


def fluid(flows, rate_of):
    """Event by event in plain Python; rate_of(client, n) in bit/s when n share the band."""
    waiting = sorted(flows, key=lambda flow: flow[1])
    left, ends, now = {}, {}, 0.0
    while waiting or left:
        rates = {client: rate_of(client, len(left)) for client in left}
        finish = {client: now + bits / rates[client] for client, bits in left.items()}
        first = min(finish, key=finish.get, default=None)
        if first is not None and (not waiting or finish[first] <= waiting[0][1]):
            then = ends[first] = finish[first]
            del left[first]
        else:
            client, then, bits = waiting.pop(0)
            rates[client], left[client] = 0.0, bits
        left = {client: bits - rates[client] * (then - now) for client, bits in left.items()}
        now = then
    return [ends[client] for client, _, _ in flows]


many_flows = st.lists(st.tuples(st.floats(0, 10), st.floats(1e3, 1e7), st.floats(0.2, 6)), min_size=1, max_size=12).map(
    lambda rows: ([(i, start, bits) for i, (start, bits, _) in enumerate(rows)], [e for _, _, e in rows])
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(many_flows)
def test_equal_shares_against_a_fluid_model(case):
    flows, efficiencies = case
    expected = fluid(flows, lambda client, n: efficiencies[client] * BAND_HZ / n)
    assert finish_times(EqualShare, constant(efficiencies), flows) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(many_flows)
def test_noisy_shares_against_a_fluid_model(case):
    flows, efficiencies = case
    link = constant(efficiencies, noise_follows_band=True)  # SNR quoted on 1 MHz: a share of 1/n has n times the SNR
    expected = fluid(flows, lambda c, n: BAND_HZ / n * math.log2(1 + n * snr_for(efficiencies[c])))
    assert finish_times(NoisyShare, link, flows) == pytest.approx(expected, rel=1e-9)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("make", "noisy"), [(EqualShare, False), (NoisyShare, True)])
@pytest.mark.parametrize("late_s", [12.5297767, 1e5 / 3, 1e9 / 7])
def test_a_few_bits_late_in_a_long_run_do_not_stop_the_clock(make, noisy, late_s):
    """A scalar at 100 Mbit/s takes less than the clock can resolve after a while: it must be through all the same."""
    link = Link(ConstantChannel([1e6, 3e5, 1e4]), Shannon(), noisy, patience_s=10.0)
    ends = finish_times(make, link, [(client, late_s + 1e-7 * client, 32) for client in range(3)])
    assert ends == pytest.approx([late_s] * 3, rel=1e-6)


def test_one_flow_may_leave_and_the_others_go_on_faster():
    for make, noisy in ((EqualShare, False), (NoisyShare, True)):
        env = simpy.Environment()
        link = constant([1, 1], noisy)
        medium = make(env, link, BAND_HZ)
        rate_bps = 0.5e6 * math.log2(3) if noisy else 0.5e6
        stays, leaves = medium.start((0,), 4e6), medium.start((1,), 4e6)
        env.run(2.0)
        assert medium.moved_bits(leaves) == pytest.approx(2 * rate_bps)
        medium.stop(leaves)
        env.run(stays.event)
        assert env.now == pytest.approx(2 + (4e6 - 2 * rate_bps) / 1e6)


def test_a_flow_that_cannot_send_is_given_up_and_holds_its_share_until_then():
    for make in (EqualShare, NoisyShare):
        env = simpy.Environment()
        link = Link(ConstantChannel([10.0, 1e-9]), Cqi(name="cqi"), make is NoisyShare, patience_s=3.0)
        medium = make(env, link, BAND_HZ)
        flow = medium.start((1,), 1e6)
        env.run(flow.event)
        assert (env.now, flow.outage, medium.moved_bits(flow)) == (3.0, True, 0.0)


def test_turns_are_taken_in_order_of_arrival():
    ends = finish_times(Turns, constant([1, 2, 4]), [(0, 0.0, 1e6), (1, 0.5, 2e6), (2, 0.1, 4e6)])
    assert ends == pytest.approx([1, 3, 2], rel=1e-9)


def test_a_turn_given_up_lets_the_next_begin():
    env = simpy.Environment()
    medium = Turns(env, constant([1]), BAND_HZ)
    first, second, third = (medium.start((0,), 1e6) for _ in range(3))
    env.run(0.25)
    medium.stop(second)
    assert medium.moved_bits(first) == pytest.approx(0.25e6)
    medium.stop(first)
    env.run(third.event)
    assert env.now == pytest.approx(1.25)


def orders(n, up=1_000_000, samples=300):
    return [Order(c, 0, 0, 0, 0, 0, up, samples * (c + 1), samples * (c + 1), 0) for c in range(n)]


def world(n=3, **blocks):
    spec = {"devices": {"cycles_per_sample": 1e6, "listen_power": "50 mW"}, **blocks}
    return World(WorldSpec.model_validate(spec), n, 0)


def test_tdma_makespan_and_the_idle_energy_of_waiting():
    w = world(cell={"access": "tdma"}, radio={"snr": "10 dB"})
    w.gather([order._replace(forward_samples=300, backward_samples=300) for order in orders(3)], None)
    upload_s = 1e6 / (1e6 * math.log2(11))
    assert w.now_s == pytest.approx(0.3 + 3 * upload_s, rel=1e-9)
    legs = w.take_legs()
    waits = [leg for leg in legs if leg.activity == "idle" and leg.start_s == pytest.approx(0.3)]
    assert sorted(leg.end_s - leg.start_s for leg in waits) == pytest.approx([upload_s, 2 * upload_s])
    assert sum(leg.energy_j for leg in waits) == pytest.approx(0.05 * 3 * upload_s)


def test_ofdma_in_the_world_follows_the_closed_form():
    w = world(cell={"access": "ofdma"}, radio={"snr": "0 dB"})
    w.gather(
        [
            order._replace(forward_samples=0, backward_samples=0, up_bits=10**6 * (order.client + 1))
            for order in orders(3)
        ],
        None,
    )
    ends = {leg.client: leg.end_s for leg in w.take_legs() if leg.activity == "transmit"}
    assert ends == {0: pytest.approx(3, rel=1e-9), 1: pytest.approx(5, rel=1e-9), 2: pytest.approx(6, rel=1e-9)}


def convex_split(bits, ready_s, gain, band_hz):
    """min T over bands b and T, sum b = B, ready_i + L_i/R_i(b_i) <= T, by an independent solver (SLSQP)."""
    bits, ready_s, gain = map(np.asarray, (bits, ready_s, gain))

    def slack(x):
        return x[-1] - ready_s - bits / 1e6 / (x[:-1] * np.log2(1 + gain / x[:-1]))

    n = len(bits)
    start = np.append(np.full(n, band_hz / 1e6 / n), 0.0)
    start[-1] = -slack(start).min()
    constraints = [
        {"type": "ineq", "fun": slack},
        {"type": "eq", "fun": lambda x: x[:-1].sum() - band_hz / 1e6},
    ]
    bounds = [(1e-6, band_hz / 1e6)] * n + [(0, None)]
    found = minimize(lambda x: x[-1], start, bounds=bounds, constraints=constraints, method="SLSQP",
                     options={"ftol": 1e-15, "maxiter": 1000})  # fmt: skip
    return found.x[-1]


def test_best_split_against_an_independent_convex_solver():
    rng = np.random.Generator(np.random.Philox(3))
    for _ in range(10):
        n = int(rng.integers(2, 7))
        bits, ready_s, gain = rng.uniform(1e5, 1e7, n), rng.uniform(0, 2, n), rng.uniform(0.1, 50, n)
        uploads = [
            Upload(L, ready, lambda b, g=g: b * math.log2(1 + g * 1e6 / b))
            for L, ready, g in zip(bits, ready_s, gain, strict=True)
        ]
        bands_hz = split_band(uploads, 3e6)
        ends = [u.ready_s + u.bits / u.rate_bps(hz) for u, hz in zip(uploads, bands_hz, strict=True)]
        assert sum(bands_hz) == pytest.approx(3e6, rel=1e-12)
        assert ends == pytest.approx([ends[0]] * n, rel=1e-9)  # all arrive together: the optimality condition
        assert max(ends) == pytest.approx(convex_split(bits, ready_s, gain, 3e6), rel=1e-6)


def test_best_split_in_the_world_beats_fixed_equal_shares_and_all_arrive_together():
    w = world(cell={"access": "makespan"}, radio={"snr": ["20 dB", "10 dB", "0 dB"], "bandwidth": "2 MHz"})
    w.gather(orders(3), None)
    ends = [leg.end_s for leg in w.take_legs() if leg.activity == "transmit"]
    assert ends == pytest.approx([w.now_s] * 3, rel=1e-9)
    equal_s = max(0.3 * (c + 1) + 1e6 / (2e6 / 3 * math.log2(1 + snr)) for c, snr in enumerate((100, 10, 1)))
    assert w.now_s < equal_s


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({"cell": {"access": "ofdma"}}, []),
        ({"cell": {"access": "ofdma"}, "radio": {"reading": "snr_at_1mhz"}}, ["in proportion to"]),
        ({"cell": {"access": "ofdma"}, "radio": {"fading": "rayleigh"}}, ["in every fading block"]),
        ({"cell": {"access": "makespan", "speed": 1}, "radio": {"path_loss": "uma"}}, ["when a phase begins"]),
    ],
)
def test_what_a_long_run_will_cost_is_remarked(blocks, words):
    found = remarks(WorldSpec.model_validate(blocks))
    assert len(found) == len(words)
    assert all(word in remark for word, remark in zip(words, found, strict=True))


@pytest.mark.parametrize(
    "blocks",
    [
        {"cell": {"access": "ofdma"}, "radio": {"reading": "power_for_snr"}},
        {"cell": {"access": "makespan"}, "radio": {"path_loss": "uma", "rate": "cqi"}},
    ],
)
def test_blocks_that_do_not_fit_together_are_refused(blocks):
    with pytest.raises(ValidationError):
        WorldSpec.model_validate(blocks)


def test_a_split_cannot_be_planned_for_asynchronous_policies():
    with pytest.raises(ScenarioError, match="asynchronous"):
        world(cell={"access": "makespan"}).send(orders(1))
