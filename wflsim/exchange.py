"""What a policy may ask of whoever drives it, and what that costs on the wire.

A policy's `round` is a generator. It yields requests and resumes with their answers:

    Draw(m, by, scheme)      ->  (D, a): who was selected, and each one's aggregation weight a[i]
    Allot(steps)             ->  the local steps that each client may take, without those for whom none fits
    Gather([Ask, ...])       ->  the replies that arrived, in cohort order, possibly none
    Send(Ask)                ->  None; the order is on its way
    Receive()                ->  the next Reply, or Lost
    Gossip(Ask)              ->  Met: what every node sent and which neighbours heard it (there is no server)

Nothing here knows torch, a clock or a radio. Payload items are tensors (anything with a `shape`), numbers, or `Coded`.

A payload may be compressed on its way, by an encoder that no policy knows. Both sides then compute with the values that
were exchanged: a client keeps what `me.sent` says the server will see, and the server subtracts what `Reply.given` says
the client received. Without an encoder these are the very tensors that were handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from wflsim.spec import choices
from wflsim.wire import BITS_PER_VALUE as BITS_PER_VALUE
from wflsim.wire import Coded as Coded
from wflsim.wire import is_array as is_array
from wflsim.wire import value_of as value_of
from wflsim.wire import wire_bits as wire_bits

Scheme = Annotated[
    Literal["sequential", "with_replacement", "uniform_weighted", "systematic", "bernoulli"],
    choices(
        sequential="m clients one by one without replacement, by lambda; each weighs 1/m",
        with_replacement="m independent draws by lambda; a client weighs as often as it was drawn",
        uniform_weighted="m clients uniformly; each weighs N lambda/m, which is unbiased",
        systematic="Madow's draw with inclusion min(1, m lambda); weights lambda/inclusion, which is unbiased",
        bernoulli="each client by itself with that inclusion, at least one; equal weights",
    ),
]
Fate = Literal["delivered", "lost", "late", "dead", "dropped", "gone"]
Weights = dict[int, float]


@dataclass(frozen=True, slots=True)
class Draw:
    """Select m clients, in proportion to `by` (uniformly if None), by one of the schemes of `policies/sampling.py`."""

    m: int
    by: Any = None
    scheme: Scheme = "sequential"


@dataclass(frozen=True, slots=True)
class Ask:
    """One piece of work for a cohort of distinct clients."""

    cohort: Sequence[int]
    work: Callable[..., Mapping[str, Any]]
    """The client half: a method `work(me, **shared, **each)` that returns what is sent up."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Goes to everybody alike and may be broadcast."""
    each: Mapping[str, Any] = field(default_factory=dict)
    """Row i goes to the i-th client of the cohort, by unicast."""
    models_up: int = 0
    """Model vectors that the paper's energy formula charges for this phase; 0: the formula ignores the phase."""


@dataclass(frozen=True, slots=True)
class Until:
    """When the server stops waiting. All None: when every order has ended."""

    deadline_s: float | None = None
    first: int | None = None
    """Go on as soon as this many replies are in; interrupt the rest."""
    quorum: int | None = None
    """Fewer replies than this by the end: the phase is void, no reply counts."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Let all asks run concurrently and wait for their replies. `until=None` leaves the rule to the scenario."""

    asks: Sequence[Ask]
    until: Until | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Start work on one or more idle clients and do not wait (asynchronous policies)."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next order that ends, whoever it is."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one client sent up; `reply["y"]` is its row."""

    client: int
    items: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    """The ask's `shared` payload as the client received it and computed with it."""

    def __getitem__(self, name: str) -> Any:
        return self.items[name]


@dataclass(frozen=True, slots=True)
class Lost:
    """An order sent by `Send` that will bring no reply, and why."""

    client: int
    fate: Fate


@dataclass(frozen=True, slots=True)
class Gossip:
    """Let all nodes work and send what comes out to their neighbours in the graph, device to device, without a server.

    The ask's `shared` and `each` stay empty: a node starts from what it has.
    """

    ask: Ask


Edges = tuple[tuple[int, int], ...]
"""Directed links (sender, receiver) of the graph of peers, sorted; each link is there in both directions."""


@dataclass(frozen=True, slots=True)
class Met:
    """What came of a Gossip."""

    sent: Mapping[int, Reply]
    """What each node sent, by its number; nodes that did not finish computing are missing."""
    edges: Edges
    """All links of the graph, those on which something was lost included."""
    heard: frozenset[tuple[int, int]]
    """Links (sender, receiver) on which it arrived and counts."""


@dataclass(frozen=True, slots=True)
class Allot:
    """How many of these local steps may each client take? Answered by those steps, client by client; where the world
    limits the time of computing (`server.compute_budget`), by as many of them as fit. A client for whom none fits is
    not in the answer: it takes no part."""

    steps: Mapping[int, int]
    """Most local steps of each client, in the order of the cohort."""


Request = Draw | Gather | Send | Receive | Gossip | Allot


class Order(NamedTuple):
    """One client's share of an Ask as the world sees it: numbers only. This is also what a trace stores."""

    client: int
    round: int
    phase: int
    """Ordinal of the Gather or Send in its round: (client, round, phase) names the order and keys its randomness."""
    ask: int
    """Ordinal of the Ask in its Gather: orders of one ask share one broadcast."""
    shared_bits: int
    each_bits: int
    up_bits: int
    forward_samples: int
    backward_samples: int
    paper_bits: int
    """What the paper's formula says is sent up: models_up x 32 P."""
    forward_steps: int = 0
    backward_steps: int = 0
    """Batches pushed backward, and forward with or without that; a pass over all d samples is ceil(d/b) of them."""
    utility: float = 0
    """Samples of the client times the root mean square of its minibatches' losses, where it reports them; else 0."""
    adapt_bits: int = 0
    """The part of up_bits that the controller of tau needs: a gradient and two numbers; 0 where tau is fixed."""
    adapt_samples: int = 0
    """The part of backward_samples that the controller of tau needs."""


class Outcome(NamedTuple):
    """How an order ended."""

    client: int
    fate: Fate
    computed: bool
    """The device finished computing, so what it keeps for itself is kept, whether or not the upload arrived."""
    peer: int | None = None
    """The neighbour to whom it was sent, device to device; None: to the server."""


class Keep(Protocol):
    """Named rows that live on the clients of a chunk: `me.memory["g"]` is [k, P], zeros where never assigned."""

    def __getitem__(self, name: str) -> Any: ...
    def __setitem__(self, name: str, rows: Any) -> None: ...
    def get(self, name: str, default: Any) -> Any:
        """Like [], with `default` (broadcast to the rows) where a client never assigned it."""


class Me(Protocol):
    """The k clients of a chunk, as their own code sees them. Models are rows of [k, P]; the algebra broadcasts."""

    clients: Sequence[int]
    samples: Any
    """[k] training samples d_i of each."""
    memory: Keep
    """Committed when the server has received the whole upload: control variates, FedDyn's gradient."""
    personal: Keep
    """Committed when the computation has finished: stays on the device whatever the radio does."""
    scratch: Keep
    """Kept from one phase of a round to the next."""

    def copies_of(self, w: Any) -> Any:
        """A new [k, P] tensor with w ([P] or [k, P]) in every row, to be updated in place."""

    def sent(self, *items: Any, near: Any = None) -> Any:
        """The items (one, or a tuple) as the server will see them once they are returned: compressed, if they will be.

        What a client remembers of its upload, it must compute from these, and it must return these, unchanged. A model
        that is sent whole names the received one that it was computed from as `near`: sparse compressors then compress
        its change, instead of setting most of the model to zero, and the server adds what it had sent.
        """

    def coded(self, rows: Any, compressor: Any) -> Coded:
        """The [k, n] rows compressed by a policy itself, as part of its algorithm (one of `wflsim.compress`)."""

    def steps(self, tau: Any, *models: Any) -> Iterator[int]:
        """k = 1, 2, ... up to the largest of tau (a whole number, or one for each client), for unequal local steps.

            for k in me.steps(tau, y):
                me.descend(y, eta)

        After its tau_i steps client i rests: it draws no batch, its gradients and losses are zero, no work is charged,
        and its rows of `models` (tensors [k, ...] that the body updates in place) stay as they are. So each client ends
        with what it would have alone.
        """

    def batch(self) -> Any:
        """The next minibatch of each client, to be passed as `on` where two evaluations must share one."""

    @property
    def everything(self) -> Any:
        """All training samples of each client, to be passed as `on`."""

    def g(self, y: Any, on: Any = None) -> Any:
        """[k, P] gradients of the mean loss at y, on the next minibatch unless `on` is given. A new tensor."""

    def f(self, y: Any, on: Any = None) -> Any:
        """[k] mean losses at y ([P]: everybody at the same), likewise."""

    def gf(self, y: Any, on: Any = None) -> tuple[Any, Any]:
        """Gradients and losses on the same samples, for the price of one."""

    def inputs(self, on: Any) -> Any:
        """[k, b, q] inputs of a minibatch drawn by `batch`, flat; b is that of the largest minibatch."""

    def g_inputs(self, y: Any, inputs: Any, on: Any) -> tuple[Any, Any]:
        """Gradients of the mean loss with respect to y, [k, P], and to the inputs, [k, b, q], at these inputs in the
        place of the minibatch's own. Metered as one gradient."""

    def descend(self, y: Any, eta: float, anchor: Any = None, pull: float = 0.0, on: Any = None) -> None:
        """y <- y - eta g(y) + pull (anchor - y), in place, on the next minibatch unless `on` names one that was drawn
        by `batch`: cheaper than asking for g."""
