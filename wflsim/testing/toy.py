"""A policy of your own, complete and running: FedAvg with a server step size, its clients drawn by their losses.

`wflsim new --policy mine.py` writes this file. Put it into a scenario by its name, relative to the scenario:

    policies:
      - {name: ./mine.py:Mine, m: 6, tau: 10, eta: 0.1}

Then `wflsim check` says which file would be run, and `wflsim run`, `tune` and `report` treat it like a built-in one.
This tests it against the contract that all policies keep:

    python -c "from wflsim.testing import check_policy; print(check_policy('./mine.py:Mine', m=3))"

What a policy must know:
- It is a frozen object of keys with a server half (`start`, `round`) and a client half (`local_steps` here). It knows
  no clock, no radio and no files, and draws random numbers from `rng("purpose")` only, never from random or torch.
- The state is a flat dataclass of tensors, numpy arrays and numbers; never change it in place, return a new one. A
  field `lam` holds a number for each client and is shown in clients.csv and in the report; it decides nothing by
  itself, `Draw(by=x.lam)` does. The field `w` is the model that is evaluated, unless `model` says otherwise.
- `round` is a generator of requests. `Draw(m)` gives the cohort D and the weight a[i] of each client; `Gather([Ask])`
  gives the replies that arrived, which may be fewer, or none: then return the state as it was. Lost replies hand their
  weight on to the others: `average_models` and `weighted` do that, a plain mean over D does not.
- `shared` goes to everybody alike (and may be broadcast), `each` has a row for each client of the cohort. `models_up`
  is what the source paper's energy formula counts as sent up in this phase, in model vectors; 0: it ignores the phase.
- Client code is written for k clients at once: `y` is [k, P], `me.g(y)` their gradients. Bits and work are counted from
  what is sent and computed, so declare in `about` what goes down and up: v a vector, s a scalar, / the next phase.
- Clients that take different numbers of steps: `for k in me.steps(tau, y)` with one number for each client lets those
  that are done rest; nothing is charged for them. To be used with `server.compute_budget`, say `unequal_steps = True`
  and ask `tau = yield Allot({i: self.tau for i in D})`; who is not in the answer is not to be asked.
- What a client keeps: `me.memory[...]` counts once the server has received its upload, `me.personal[...]` once it has
  computed. After compression both sides must use what was exchanged: `me.sent(y)`, and `received(got, "w")`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Policy, Rng, Round, Step, Tensor, Vector, average_models, received


@dataclass(frozen=True)
class State:
    """What the server remembers from round to round."""

    w: Tensor
    """[P] the model."""
    lam: Vector
    """[N] by which clients are drawn: here their last known losses; shown in the tables because it is called lam."""


class Mine(Policy):
    """Moves the server by a step of its own towards the mean of the clients' models; who does badly is asked more."""

    about = About("my own", down="1v", up="1v+1s")

    # Keys that a scenario may set, beside m and tau, which every policy has. The text below each is its description.
    eta: Step = 0.05
    """Learning rate of the clients."""
    beta: Step = 1.0
    """Step size of the server; 1: the mean of the received models itself."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        """The state before the first round; d are the clients' numbers of samples."""
        return State(w, np.ones(len(d)))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        """Round s: ask some clients to train, and average what comes back."""
        D, a = yield Draw(self.m or len(x.lam), by=x.lam)
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w}, models_up=1)])
        if not got:
            return x  # nothing arrived; the time and energy are spent all the same
        w = received(got, "w")  # as the clients have seen it, after compression
        mean = average_models(w, got, "y", a)
        lam = x.lam.copy()
        for reply in got:
            lam[reply.client] = max(float(reply["loss"]), 1e-3)  # a client that can never be drawn would be lost
        return State(w + self.beta * (mean - w), lam)

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        """The clients' half, for all clients of the cohort at once: tau steps of SGD, then the loss there."""
        y = me.copies_of(w)
        for _ in me.steps(self.tau, y):
            me.descend(y, self.eta)  # y <- y - eta g(y), on the next minibatch of each
        return {"y": me.sent(y, near=w), "loss": me.f(y)}
