"""The learner: runs the client half of a policy for a cohort, chunk by chunk, and evaluates models client by client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from wflsim.compress.compressors import Compressor, Identity
from wflsim.compress.payload import Payload
from wflsim.exchange import Ask, Me, value_of, wire_bits
from wflsim.learning.clients import FEWER, Chunk
from wflsim.learning.machine import format_bytes, keep_freed_memory, refuse_unless_it_fits
from wflsim.learning.models.gradients import Gradients
from wflsim.learning.probe import BETA, GRADIENT, RHO, keep_local, probe, received_model
from wflsim.learning.samples import Batches, Rows, Shards
from wflsim.learning.specs import TrainSpec
from wflsim.rng import stream

MEMORY_SHARE = 0.8
"""Share of the machine's memory that what clients remember may fill; the rest is for samples, models and the system."""
EVALUATED_BYTES = 1 << 28
"""Bytes of models that are evaluated at once where every client has its own: bounds the memory."""

Job = TypeVar("Job")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Result:
    """One client's finished work, not yet delivered to the server."""

    client: int
    items: dict[str, Any]
    """What the client sends up, by name, as the server will see it."""
    given: dict[str, Any]
    """The shared payload as the client received it."""
    up_bits: int
    """Bits of the upload."""
    forward_samples: int
    """Samples pushed forward through the model: those trained on, and those of which only the loss was asked."""
    backward_samples: int
    """Samples pushed backward through the model: those trained on."""
    forward_steps: int
    """Batches in which they were pushed forward."""
    backward_steps: int
    """Batches in which they were pushed backward: the local steps."""
    memory: dict[str, Tensor]
    """Rows to store once the server has received the whole upload."""
    personal: dict[str, Tensor]
    """Rows to store as soon as the client has finished computing."""
    scratch: dict[str, Tensor]
    """Rows to store until the end of the round."""
    loss_rms: float = 0.0
    """Root mean square of the mean losses of the minibatches that the client trained on, where that is watched."""
    adapt_bits: int = 0
    """The part of up_bits that is for the controller of tau."""
    adapt_samples: int = 0
    """The part of backward_samples that is for the controller of tau."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that the client sends and remembers."""
        held = (self.items, self.memory, self.personal, self.scratch)
        return sum(rows.nbytes for store in held for rows in store.values() if isinstance(rows, Tensor))


@dataclass(slots=True)
class Done:
    """The finished work of a whole Ask."""

    shared_bits: int
    """Bits of the payload that goes to everybody."""
    each_bits: int
    """Bits of the payload that one client gets for itself."""
    results: list[Result]
    """One per client, in the order of the cohort."""


class Learner:
    """All clients of a run: their samples, what they remember, and the model they train."""

    def __init__(
        self, gradients: Gradients, train: Shards, test: Shards, spec: TrainSpec, seed: int, threads: int
    ) -> None:
        # Threads run over clients. One thread inside each operation is faster for models of this size, and keeps
        # results independent of the number of cores.
        torch.set_num_threads(1)
        keep_freed_memory()
        self.clients = len(train.sizes)
        self.samples = train.sizes
        self.test_samples = test.sizes
        self.parameters = gradients.model.parameters
        self.flops_per_sample = gradients.model.flops(train.x[:1])
        self._gradients = gradients
        self._train = train
        self._test = test
        self._spec = spec
        self._seed = seed
        self._blank = train.x.new_zeros(self.parameters)
        down, up = spec.compress.down, spec.compress.up
        self._compress: dict[str, Compressor] = {"shared": down, "each": down, "up": up}
        """Compressor by the way that a payload goes: to all, to one client, or from it."""
        self._stores: dict[str, Rows] = {"memory": {}, "personal": {}, "scratch": {}}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def initial(self) -> Tensor:
        """[P] initial parameters, from a named stream of the seed."""
        return self._gradients.model.initial(self._seed).to(self._blank)

    def step_samples(self, client: int) -> int:
        """Samples of one minibatch of the client."""
        return min(self._spec.batch, self.samples[client])

    def run(self, ask: Ask, keys: Sequence[tuple[int, int]], watch: bool = False, probed: bool = False) -> Done:
        """Do the work of an Ask for its cohort; keys[i] names the stream of minibatches of the i-th client.

        `watch`: note the losses of all minibatches that are trained on. `probed`: measure and send up what the
        controller of tau needs.
        """
        # Plain ints: a stream is named by what its key looks like, and numpy's 3 looks different.
        names = [(int(client), *map(int, key)) for client, key in zip(ask.cohort, keys, strict=True)]
        down = self._payload("shared", names[:1]).encode(ask.shared)
        unicast = self._payload("each", names).encode(_one_row_each(ask.each, len(names)))
        shared, each = _values(down), _values(unicast)

        def work(part: slice) -> list[Result]:
            upload = self._payload("up", names[part])
            me = self._chunk(names[part], upload)
            me.watched = watch
            given = {**shared, **{name: rows[part] for name, rows in each.items()}}
            with torch.no_grad():
                sent = _one_row_each(ask.work(me, **given), len(me.clients))
                if probed:
                    prober = self._chunk(names[part], upload)
                    sent = {**sent, **probe(prober, received_model(given))}
                    keep_local(me)
                done = list(_results(me, upload.encode(sent), shared))
                if probed:
                    done = [_with_probe(result, prober, i) for i, result in enumerate(done)]
            cohort_bytes = len(names) * done[0].nbytes
            refuse_unless_it_fits(cohort_bytes, f"what {len(names)} clients of one phase send and keep", FEWER)
            return done

        size = self._gradients.chunk or max(1, len(names))
        parts = [slice(low, low + size) for low in range(0, len(names), size)]
        results = [result for chunk in self._map(work, parts) for result in chunk]
        return Done(wire_bits(down, rows=False), wire_bits(unicast, rows=True), results)

    def _chunk(self, names: Sequence[tuple[int, ...]], upload: Payload) -> Chunk:
        """The clients of the orders with these names, before their first minibatch."""
        clients, batches = [client for client, *_ in names], [self._batches(*name) for name in names]
        return Chunk(clients, self._train, self._gradients, batches, self._stores, self._blank, upload)

    def keep(self, result: Result) -> None:
        """Store what stays on the device: the client has finished computing."""
        self._store("personal", result.client, result.personal)
        self._store("scratch", result.client, result.scratch)

    def commit(self, result: Result) -> None:
        """Store what the server relies on: it has received the whole upload."""
        self._store("memory", result.client, result.memory)

    def end_round(self) -> None:
        """Forget scratch, and refuse to go on if what clients remember has outgrown the machine's memory."""
        self._stores["scratch"] = {}
        kept = [rows for store in self._stores.values() for rows in store.values() if rows]
        held_bytes = sum(len(rows) * next(iter(rows.values())).nbytes for rows in kept)
        clients = max(map(len, kept), default=0)
        refuse_unless_it_fits(
            held_bytes / MEMORY_SHARE,
            f"what {clients} of {self.clients} clients remember ({format_bytes(held_bytes)}) and the rest",
            "lower clients or stop.rounds, choose a smaller model, or a policy without client memory",
        )

    def evaluate(self, model: Callable[[Me], Tensor]) -> tuple[list[float | None], list[float | None]]:
        """Per client: accuracy and mean loss on its test samples, None without any.

        `model`, given some of the clients, returns [P] or, if each has its own, one row for each of them.
        """
        nothing = Payload(Identity(), list)
        scores: list[tuple[float | None, float | None]] = []
        size = max(1, EVALUATED_BYTES // self._blank.nbytes)
        for low in range(0, self.clients, size):
            clients = range(low, min(low + size, self.clients))
            me = Chunk(clients, self._train, self._gradients, [], self._stores, self._blank, nothing)
            with torch.no_grad():
                w = model(me)
            own = w.expand(len(clients), -1) if w.ndim == 1 else w
            if len(own) != len(clients):
                raise ValueError(f"the policy's model() gave {len(own)} models for {len(clients)} clients")
            scores += self._map(self._score, list(zip(clients, own, strict=True)))
        return [accuracy for accuracy, _ in scores], [loss for _, loss in scores]

    def rows(self, store: Literal["memory", "personal"], name: str) -> dict[int, Tensor]:
        """Client -> row of this name in the store."""
        return dict(self._stores[store].get(name, {}))

    def snapshot(self) -> dict[str, Any]:
        """Everything clients remember, as plain dicts of tensors, to be saved."""
        return {store: {name: dict(kept) for name, kept in rows.items()} for store, rows in self._stores.items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `snapshot` gave."""
        self._stores = {
            store: {
                name: {client: row.to(self._blank.device) for client, row in kept.items()}
                for name, kept in rows.items()
            }
            for store, rows in saved.items()
        }

    def _batches(self, client: int, *key: int) -> Batches:
        """The minibatches of one client in the order of this key."""
        rng = stream(self._seed, "batches", client, *key)
        return Batches(rng, self.samples[client], self._spec.batch, self._spec.replacement)

    def _payload(self, way: str, names: Sequence[tuple[int, ...]]) -> Payload:
        """A payload on its way (down shared, down each, or up), with a copy for each of the named orders."""
        # The stream is called after the first compressor there was: another name would be other random numbers.
        return Payload(
            self._compress[way], lambda: [stream(self._seed, "quantise", way, *name) for name in names]
        )

    def _score(self, job: tuple[int, Tensor]) -> tuple[float | None, float | None]:
        """Accuracy and mean loss of the model w on the client's test samples."""
        client, w = job
        count = self._test.sizes[client]
        if not count:
            return None, None
        right, loss = 0, 0.0
        with torch.no_grad():
            parameters = self._gradients.model.split(w)
            for x, labels in self._test.pieces(client):
                logits = self._gradients.model.forward(parameters, x)
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
    """The payload itself; a ValueError unless every item has a row for every client."""
    if not isinstance(items, Mapping):
        raise ValueError(f"a client's work returns {type(items).__name__}, not the items that it sends up by name")
    for name, item in items.items():
        value = value_of(item)
        if not hasattr(value, "__len__"):
            raise ValueError(f"payload {name!r} is a {type(value).__name__}; it needs a row for each of the clients")
        if len(value) != clients:
            raise ValueError(f"payload {name!r} has {len(value)} rows for {clients} clients")
    return items


def _results(me: Chunk, sent: Mapping[str, Any], given: dict[str, Any]) -> Iterator[Result]:
    """Client by client: its row of everything that the chunk sends and remembers."""
    bits = wire_bits(sent, rows=True)
    adapt_bits = wire_bits({name: item for name, item in sent.items() if name in (GRADIENT, BETA, RHO)}, rows=True)
    values = {name: list(rows) for name, rows in _values(sent).items()}
    for i, (client, staged) in enumerate(zip(me.clients, me.staged(), strict=True)):
        items = {name: rows[i] for name, rows in values.items()}
        memory, personal, scratch = staged
        work = me.forward_samples[i], me.backward_samples[i], me.forward_steps[i], me.backward_steps[i]
        yield Result(client, items, given, bits, *work, memory, personal, scratch, me.loss_rms(i), adapt_bits)


def _with_probe(result: Result, prober: Chunk, i: int) -> Result:
    """The result with the work of what was measured for the controller of tau, in row i of `prober`, added to it."""
    result.forward_samples += prober.forward_samples[i]
    result.backward_samples += prober.backward_samples[i]
    result.forward_steps += prober.forward_steps[i]
    result.backward_steps += prober.backward_steps[i]
    result.adapt_samples = prober.backward_samples[i]
    return result
