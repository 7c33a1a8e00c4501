"""What every policy must keep to, built in or brought: one function per rule, run on six least-squares clients.

    from wflsim.testing import check_policy
    check_policy("./mine.py:Mine", m=3)             # or a class with its keys, or an instance

A broken rule raises an AssertionError with a sentence. pytest is not needed, and is fine.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from wflsim.policies.base import Policy
from wflsim.policies.registry import policy_class
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training
from wflsim.testing.quadratics import Kept, LeastSquares, Rough, models, problem, run
from wflsim.world.spec import WorldSpec
from wflsim.world.world import World

N, P = 6, 4
"""Clients and parameters of the problem on which policies are checked."""
RADIO = {"snr": ["10 dB", "0 dB", "5 dB", "8 dB", "2 dB", "6 dB"], "bandwidth": "2 kHz", "power": "100 mW"}
CALM = {"radio": RADIO}
"""A world that delivers everything."""
ROUGH = {"radio": {**RADIO, "loss": {"probability": 0.3}}, "server": {"deadline": "0.55 s"}}
"""A world that loses replies and has a deadline."""


def check_policy(policy: Policy | type[Policy] | str, **keys: Any) -> list[str]:
    """Hold a policy to the contract, and return what was checked; an AssertionError says which rule it breaks.

    `policy`: an instance; a class, made with these keys; or its name as in a scenario, such as "./mine.py:Mine".
    """
    kind = policy_class(policy) if isinstance(policy, str) else policy
    made = kind(**keys) if isinstance(kind, type) else kind
    if (made.m or 1) > N:
        raise ValueError(f"m: {made.m} is more than the {N} clients on which policies are checked; give a smaller one")
    for rule in CHECKS.values():
        rule(made)
    return [(rule.__doc__ or "").splitlines()[0] for rule in CHECKS.values()]


def learner(chunk: int | None = None) -> LeastSquares:
    """Six clients with minibatches of 3; `chunk`: how many of them are computed together."""
    made = problem(N, P).learner(batch=3)
    made._gradients.chunk = chunk
    return made


def world(spec: dict[str, Any], seed: int = 0) -> World:
    """The world of the six clients."""
    return World(WorldSpec.model_validate(spec), N, seed)


def reads_back(policy: Policy) -> None:
    """It is a spec: what it dumps loads to the same policy, and an unknown key is refused."""
    kind = type(policy)
    _demand(kind.model_validate_json(policy.model_dump_json()) == policy, policy, "does not load from what it dumps")
    try:
        kind.model_validate({**policy.model_dump(), "etaa": 1})
    except ValidationError:
        return
    _demand(False, policy, "takes a key that it does not have; do not change model_config")


def says_what_it_is(policy: Policy) -> None:
    """It names its paper, what it sends down and up, and has a docstring."""
    for name in ("paper", "down", "up"):
        _demand(bool(getattr(policy.about, name)), policy, f"has no {name}")
    _demand(bool(type(policy).__doc__), policy, "has no __doc__")


def same_seed_same_run(policy: Policy) -> None:
    """The same seed gives the same run, bit for bit, and another seed another."""
    runs = [run(policy, learner(), 5, world(ROUGH, seed), seed) for seed in (0, 0, 1)]
    same = _bytes(runs[0][0]) == _bytes(runs[1][0]) and runs[0][1].legs == runs[1][1].legs
    _demand(same, policy, "gave two runs with one seed; draw from rng(...) only, and keep nothing in self")
    _demand(_bytes(runs[0][0]) != _bytes(runs[2][0]), policy, "learns the same with another seed; let it train")


def replay_is_live(policy: Policy) -> None:
    """Where nothing is lost the world does not change the learning, and a replayed trace costs what the run cost."""
    if policy.asynchronous:
        return
    rehearsed, dry = run(policy, learner(), 5, evaluate_every=1)
    lived, wet = run(policy, learner(), 5, world(CALM), evaluate_every=1)
    _demand(_bytes(rehearsed) == _bytes(lived) and dry.trace == wet.trace, policy, "learns otherwise in a world")
    again = Kept()
    drive(Replay(dry.trace), world(CALM), again, Stop(StopSpec(rounds=5)), N, 0)
    _demand(again.legs == wet.legs != [] and again.rows == wet.rows, policy, "costs otherwise when it is replayed")


def resumes(policy: Policy) -> None:
    """Stopped, saved and resumed, it comes to the same bytes."""
    whole, kept = run(policy, learner(), 9, world(ROUGH), evaluate_every=1)
    for stop_after in (1, 4):
        first, half = run(policy, learner(), stop_after, world(ROUGH), evaluate_every=1)
        second, rest = Training(policy, learner(), 0, 1), Kept()
        second.restore(_saved(first))
        drive(Replay(half.trace, then=second), world(ROUGH), rest, Stop(StopSpec(rounds=9)), N, 0)
        same = _bytes(second) == _bytes(whole) and rest.trace == kept.trace and rest.legs == kept.legs
        _demand(same, policy, f"goes on otherwise when resumed after round {stop_after - 1}; keep all in the state")


def survives_silence(policy: Policy) -> None:
    """Rounds in which nothing arrives leave the state as it is, and it goes on afterwards."""
    training, kept = run(policy, learner(), 9, Rough(N, void=(2, 3, 4)))
    before, after = kept.states[1], kept.states[4]
    if not policy.asynchronous:  # otherwise what was sent in round 1 still arrives later
        _demand([row.delivered for row in kept.rows[2:5]] == [0, 0, 0], policy, "receives what was lost")
        changed = [field.name for field in fields(before) if not _equal(before, after, field.name)]
        names = ", ".join(changed)
        _demand(not changed, policy, f"changes {names} although no reply arrived; return the state as it was")
    _demand(not torch.equal(training.state.w, after.w), policy, "does not go on after rounds without a reply")
    nothing, kept = run(policy, learner(), 4, Rough(N, loss=1.0))
    start = Training(policy, learner(), 0).state.w
    _demand(torch.equal(nothing.state.w, start), policy, "moves the model without a single reply")
    asks = all(row.asked > 0 for row in kept.rows if not policy.asynchronous)
    _demand(asks, policy, "has rounds in which it asks nobody")


def bits_as_declared(policy: Policy) -> None:
    """What is sent costs the bits that `down` declares, and at most those of `up`: a key may save some of them."""
    _, kept = run(policy, learner(), 12, Rough(N))
    about = policy.about
    down, up = declared_bits(policy, about.down), declared_bits(policy, about.up)
    for entry in kept.trace:
        steps = [step for step in entry.steps if step.orders]
        phases = len(steps) == len(down) == len(up) or policy.asynchronous
        _demand(phases, policy, f"has {len(steps)} phases, but down is {about.down!r} and up is {about.up!r}")
        for number, step in enumerate(steps):
            phase = 0 if policy.asynchronous else number
            for order in step.orders:
                got = order.shared_bits + order.each_bits
                said = f"with {P} parameters: phase {phase} of round {order.round}"
                _demand(got == down[phase], policy, f"sends {got} bits down, but says {about.down!r}, {said}")
                _demand(order.up_bits <= up[phase], policy, f"sends {order.up_bits} up, but says {about.up!r}, {said}")


def states_are_new(policy: Policy) -> None:
    """A round returns a new state and does not change the old one in place."""
    training = Training(policy, learner(), 0)
    kept, copies = Kept(), list[dict[str, Any]]()
    kept.training = training

    def copying(finished: Any) -> None:
        kept(finished)
        state = training.state
        copies.append({field.name: np.asarray(getattr(state, field.name)).copy() for field in fields(state)})

    drive(training, Rough(N, 0.3), copying, Stop(StopSpec(rounds=6)), N, 0)
    for copy, state in zip(copies, kept.states, strict=True):
        changed = [name for name, value in copy.items() if not np.array_equal(value, np.asarray(getattr(state, name)))]
        _demand(not changed, policy, f"changes {', '.join(changed)} of an old state in place; return a new state")


def alone_or_together(policy: Policy) -> None:
    """Clients compute the same alone as in one chunk with others."""
    together, _ = run(policy, learner(), 5, Rough(N, 0.3))
    alone, _ = run(policy, learner(chunk=1), 5, Rough(N, 0.3))
    for one, other in ((together.state.w, alone.state.w), (models(together), models(alone))):
        same = np.allclose(one, other, rtol=0, atol=1e-12)
        _demand(same, policy, "computes otherwise when clients are computed one by one: a row must not use other rows")


CHECKS: dict[str, Callable[[Policy], None]] = {
    rule.__name__: rule
    for rule in (
        reads_back, says_what_it_is, same_seed_same_run, replay_is_live, resumes, survives_silence, bits_as_declared,
        states_are_new, alone_or_together,
    )
}  # fmt: skip
"""The rules by their names."""


def declared_bits(policy: Policy, payload: str) -> list[int]:
    """Bits of each phase of a declaration such as `1v+1s / kv`, where k is a key of the policy.

    A vector that the policy compresses itself, `1c`, costs at most as much as a plain one.
    """
    found = []
    for phase in payload.split(" / "):
        values = 0
        for part in phase.split("+"):
            number = part[:-1] if part[:-1].isdigit() else getattr(policy, part[:-1], None)
            _demand(number is not None, policy, f"says {payload!r}; {part!r} is no number of vectors or scalars")
            values += int(str(number)) * (P if part[-1] in "vc" else 1)
        found.append(32 * values)
    return found


def _demand(kept: bool, policy: Policy, otherwise: str) -> None:
    if not kept:
        raise AssertionError(f"{type(policy).__name__} {otherwise}")


def _equal(one: Any, other: Any, name: str) -> bool:
    return np.array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))


def _saved(training: Training) -> Any:
    """The training's state as a checkpoint gives it back."""
    buffer = io.BytesIO()
    torch.save(training.snapshot(), buffer)
    return torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)


def _bytes(training: Training) -> str:
    """Everything learning depends on, as text: equal if and only if equal bit for bit."""
    return repr(_flat(_saved(training)))


def _flat(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {key: _flat(entry) for key, entry in sorted(value.items(), key=str)}
    if isinstance(value, list | tuple):
        return [_flat(entry) for entry in value]
    return value
