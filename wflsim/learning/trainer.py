"""The learner: runs the client half of a policy for a cohort, chunk by chunk, and evaluates models client by client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from wflsim.exchange import Ask, Me, value_of, wire_bits
from wflsim.learning.client import FEWER, Batches, Chunk, Shards
from wflsim.learning.engines import Engine
from wflsim.learning.fits import in_bytes, refuse_unless_it_fits
from wflsim.learning.heap import keep_freed_memory
from wflsim.learning.payload import Encoder, Payload
from wflsim.learning.quantise import StochasticRounding
from wflsim.learning.specs import TrainSpec
from wflsim.learning.stores import Rows
from wflsim.rng import stream

MEMORY_SHARE = 0.8
"""Part of a machine's memory that client memories may fill: the rest is the samples', the models' and the system's."""

Job = TypeVar("Job")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Result:
    """One client's finished work, not yet delivered."""

    client: int
    items: dict[str, Any]
    """Its rows, as the server will see them."""
    given: dict[str, Any]
    """The shared payload as the client received it."""
    up_bits: int
    forward_samples: int
    """A trained sample counts one forward and one backward, a sample whose loss alone was asked one forward."""
    backward_samples: int
    memory: dict[str, Tensor]
    personal: dict[str, Tensor]
    scratch: dict[str, Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that the client sends and keeps."""
        held = (self.items, self.memory, self.personal, self.scratch)
        return sum(rows.nbytes for store in held for rows in store.values() if isinstance(rows, Tensor))


@dataclass(slots=True)
class Done:
    """A whole ask: what one copy of its payload costs, and the results in cohort order."""

    shared_bits: int
    each_bits: int
    results: list[Result]


class Learner:
    """All clients: their data, what they remember, and the model they train."""

    def __init__(self, engine: Engine, train: Shards, test: Shards, spec: TrainSpec, seed: int, threads: int) -> None:
        # Threads run over clients. One thread inside each operation is faster for models of this size, and keeps
        # results independent of the number of cores.
        torch.set_num_threads(1)
        keep_freed_memory()
        self.clients = len(train.sizes)
        self.samples = train.sizes
        self.test_samples = test.sizes
        self.parameters = engine.model.parameters
        self.flops_per_sample = engine.model.flops(train.x[:1])
        self._engine = engine
        self._train = train
        self._test = test
        self._spec = spec
        self._seed = seed
        self._blank = train.x.new_zeros(self.parameters)
        self._encoder: Encoder | None = None if spec.quantise is None else StochasticRounding(spec.quantise)
        self._stores: dict[str, Rows] = {"memory": {}, "personal": {}, "scratch": {}}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def initial(self) -> Tensor:
        """[P] initial weights, from a named stream of the seed."""
        return self._engine.model.initial(self._seed).to(self._blank)

    def run(self, ask: Ask, keys: Sequence[tuple[int, int]]) -> Done:
        """The work of a cohort; keys[i] names the batch stream of the i-th client."""
        # Plain ints: a stream is named by what its key looks like, and numpy's 3 looks different.
        names = [(int(client), *map(int, key)) for client, key in zip(ask.cohort, keys, strict=True)]
        down = self._payload("shared", names[:1]).encode(ask.shared)
        unicast = self._payload("each", names).encode(_one_row_each(ask.each, len(names)))
        shared, each = _values(down), _values(unicast)

        def work(part: slice) -> list[Result]:
            upload = self._payload("up", names[part])
            me = Chunk(
                [client for client, *_ in names[part]],
                self._train,
                self._engine,
                [self._batches(*name) for name in names[part]],
                self._stores,
                self._blank,
                upload,
            )
            with torch.no_grad():
                sent = ask.work(me, **shared, **{name: rows[part] for name, rows in each.items()})
                done = list(_results(me, upload.encode(_one_row_each(sent, len(me.clients))), shared))
            cohort_bytes = len(names) * done[0].nbytes
            refuse_unless_it_fits(cohort_bytes, f"what {len(names)} clients of one phase send and keep", FEWER)
            return done

        size = self._engine.chunk or max(1, len(names))
        parts = [slice(low, low + size) for low in range(0, len(names), size)]
        results = [result for chunk in self._map(work, parts) for result in chunk]
        return Done(wire_bits(down, rows=False), wire_bits(unicast, rows=True), results)

    def keep(self, result: Result) -> None:
        """The computation has finished: what stays on the device is kept."""
        self._store("personal", result.client, result.personal)
        self._store("scratch", result.client, result.scratch)

    def commit(self, result: Result) -> None:
        """The server has received the whole upload: what it relies on is kept."""
        self._store("memory", result.client, result.memory)

    def end_round(self) -> None:
        """Scratch is forgotten. What clients remember grows with everyone who takes part for the first time."""
        self._stores["scratch"] = {}
        kept = [rows for store in self._stores.values() for rows in store.values() if rows]
        held_bytes = sum(len(rows) * next(iter(rows.values())).nbytes for rows in kept)
        clients = max(map(len, kept), default=0)
        refuse_unless_it_fits(
            held_bytes / MEMORY_SHARE,
            f"what {clients} of {self.clients} clients remember ({in_bytes(held_bytes)}) and the rest",
            "lower clients or stop.rounds, choose a smaller model, or a policy without client memory",
        )

    def evaluate(self, model: Callable[[Me], Tensor]) -> tuple[list[float | None], list[float | None]]:
        """Per client: accuracy and mean loss on its test samples, None without any.

        `model`, given all clients, returns [P] or, if each has its own, [N, P].
        """
        nothing = self._payload("evaluate", [])
        me = Chunk(range(self.clients), self._train, self._engine, [], self._stores, self._blank, nothing)
        with torch.no_grad():
            w = model(me)
        own = w.expand(self.clients, -1) if w.ndim == 1 else w
        jobs = [(client, own[client]) for client in range(self.clients)]
        scores = list(self._map(self._score, jobs))
        return [accuracy for accuracy, _ in scores], [loss for _, loss in scores]

    def rows(self, store: Literal["memory", "personal"], name: str) -> dict[int, Tensor]:
        """What each client holds now, by client."""
        return dict(self._stores[store].get(name, {}))

    def snapshot(self) -> dict[str, Any]:
        """Everything clients remember, as plain dicts of tensors."""
        return {store: {name: dict(kept) for name, kept in rows.items()} for store, rows in self._stores.items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `snapshot`."""
        self._stores = {
            store: {
                name: {client: row.to(self._blank.device) for client, row in kept.items()}
                for name, kept in rows.items()
            }
            for store, rows in saved.items()
        }

    def _batches(self, client: int, *key: int) -> Batches:
        rng = stream(self._seed, "batches", client, *key)
        return Batches(rng, self.samples[client], self._spec.batch, self._spec.replacement)

    def _payload(self, way: str, names: Sequence[tuple[int, ...]]) -> Payload:
        """One payload on this way, a copy for each of the named orders."""
        rngs = [stream(self._seed, "quantise", way, *name) for name in names] if self._encoder and names else []
        return Payload(self._encoder if rngs else None, rngs)

    def _score(self, job: tuple[int, Tensor]) -> tuple[float | None, float | None]:
        client, w = job
        count = self._test.sizes[client]
        if not count:
            return None, None
        right, loss = 0, 0.0
        with torch.no_grad():
            parameters = self._engine.model.split(w)
            for x, labels in self._test.pieces(client):
                logits = self._engine.model.forward(parameters, x)
                right += int((logits.argmax(-1) == labels).sum())
                loss += float(cross_entropy(logits, labels, reduction="sum"))
        return right / count, loss / count

    def _store(self, store: str, client: int, rows: Mapping[str, Tensor]) -> None:
        for name, row in rows.items():
            self._stores[store].setdefault(name, {})[client] = row

    def _map(self, function: Callable[[Job], Answer], jobs: Sequence[Job]) -> Iterator[Answer]:
        if self._pool is None or len(jobs) == 1:
            return map(function, jobs)
        return self._pool.map(function, jobs)


def _values(items: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value_of(item) for name, item in items.items()}


def _one_row_each(items: Mapping[str, Any], clients: int) -> Mapping[str, Any]:
    """The payload, provided that it has a row for every client."""
    for name, item in items.items():
        if len(value_of(item)) != clients:
            raise ValueError(f"payload {name!r} has {len(value_of(item))} rows for {clients} clients")
    return items


def _results(me: Chunk, sent: Mapping[str, Any], given: dict[str, Any]) -> Iterator[Result]:
    """One client's row of everything the chunk sends and keeps."""
    bits = wire_bits(sent, rows=True)
    values = {name: list(rows) for name, rows in _values(sent).items()}
    for i, (client, staged) in enumerate(zip(me.clients, me.staged(), strict=True)):
        items = {name: rows[i] for name, rows in values.items()}
        yield Result(client, items, given, bits, me.forward_samples[i], me.backward_samples[i], *staged)
