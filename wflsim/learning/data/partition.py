"""Partitions: which samples of a data set belong to which client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, Field, Tag

from wflsim.errors import DataError, ScenarioError
from wflsim.learning.data.arrays import DataSet, Labels, Samples
from wflsim.learning.data.zipf import Counts, ZipfDirichletSpec, zipf_dirichlet_counts
from wflsim.rng import stream
from wflsim.spec import InputFile, Spec

Owned = list[Labels]
"""Sample numbers of each client."""


class IidSpec(Spec):
    """Shuffled and cut into equal parts."""

    name: Literal["iid"]
    """Chooses equal parts of shuffled samples."""


class ShardsSpec(Spec):
    """Sorted by label and cut into clients x shards parts, of which each client draws some (McMahan et al. 2017)."""

    name: Literal["shards"]
    """Chooses parts of samples sorted by label."""
    shards: Annotated[int, Field(gt=0, le=1_000_000)] = 2
    """Parts that each client draws."""


class FileSpec(Spec):
    """Sample numbers from a JSON file: {"train": [[...], ...], "test": [[...], ...]}, one list per client."""

    name: Literal["file"]
    """Chooses a partition of your own in a JSON file."""
    path: InputFile
    """The JSON file, relative to the scenario."""


class NaturalSpec(Spec):
    """As the data comes: `synthetic`, or an `npz` that says who owns what."""

    name: Literal["natural"]
    """Chooses the owners that the data itself names."""


def _name(block: Any) -> Any:
    """The variant that a partition block chooses; without a name, the paper's."""
    return block.get("name", "zipf_dirichlet") if isinstance(block, dict) else getattr(block, "name", None)


PartitionSpec = Annotated[
    Annotated[ZipfDirichletSpec, Tag("zipf_dirichlet")]
    | Annotated[IidSpec, Tag("iid")]
    | Annotated[ShardsSpec, Tag("shards")]
    | Annotated[FileSpec, Tag("file")]
    | Annotated[NaturalSpec, Tag("natural")],
    Discriminator(_name),
]


@dataclass(frozen=True, slots=True)
class Partition:
    """Sample numbers per client; every sample at most once, no client without training samples."""

    train: Owned
    test: Owned


def divide(spec: PartitionSpec, data: DataSet, clients: int, seed: int) -> Partition:
    """Give every client its training and test samples, as the spec says."""
    if data.owned != isinstance(spec, NaturalSpec):
        why = "the data says who owns what: it must be natural" if data.owned else "the data names no owners"
        raise ScenarioError(f"partition.name: {spec.name} does not fit, {why}")
    if isinstance(spec, FileSpec):
        return _from_file(Path(spec.path), data, clients)
    return Partition(*(_divide_half(spec, half, data.classes, clients, seed) for half in (data.train, data.test)))


def class_counts(owned: Sequence[Labels], labels: Labels, classes: int) -> Counts:
    """[clients, classes] number of samples of each class at each client."""
    return np.stack([np.bincount(labels[own], minlength=classes) for own in owned])


def _divide_half(
    spec: ZipfDirichletSpec | IidSpec | ShardsSpec | NaturalSpec, half: Samples, classes: int, clients: int, seed: int
) -> Owned:
    """Sample numbers of each client in one half of the data set."""
    if isinstance(spec, NaturalSpec):
        return _natural(half, clients)
    parts = clients * spec.shards if isinstance(spec, ShardsSpec) else clients
    if len(half.y) < parts:
        raise DataError(f"{len(half.y)} {half.name} samples cannot be shared as {parts} parts among {clients} clients")
    if isinstance(spec, ZipfDirichletSpec):
        return _deal(zipf_dirichlet_counts(spec, half.y, classes, clients, seed), half, seed)
    shuffled = stream(seed, "deal", half.name).permutation(len(half.y))
    if isinstance(spec, IidSpec):
        return [np.sort(part) for part in np.array_split(shuffled, clients)]
    shards = np.array_split(shuffled[np.argsort(half.y[shuffled], kind="stable")], parts)
    # Not keyed by the half: a client's test shards must hold the labels of its training shards.
    drawn = stream(seed, "shards").permutation(parts).reshape(clients, spec.shards)
    return [np.sort(np.concatenate([shards[number] for number in own])) for own in drawn]


def _deal(counts: Counts, half: Samples, seed: int) -> Owned:
    """Shuffle each class and cut it among the clients as `counts` [clients, classes] say."""
    piles: list[list[Labels]] = [[] for _ in counts]
    for c, column in enumerate(counts.T):
        of_class = stream(seed, "deal", half.name, c).permutation(np.flatnonzero(half.y == c))
        for pile, part in zip(piles, np.split(of_class, np.cumsum(column))[:-1], strict=True):
            pile.append(part)
    return [np.sort(np.concatenate(pile)) for pile in piles]


def _natural(half: Samples, clients: int) -> Owned:
    """Sample numbers of each client as the data itself says."""
    assert half.owner is not None
    owners = np.unique(half.owner)
    if half.name == "train" and not np.array_equal(owners, np.arange(clients)):
        raise DataError(f"the data is owned by clients {owners[0]}..{owners[-1]} ({len(owners)}), not 0..{clients - 1}")
    return [np.flatnonzero(half.owner == client) for client in range(clients)]


def _from_file(path: Path, data: DataSet, clients: int) -> Partition:
    """Sample numbers of each client from a JSON file, checked."""
    try:
        given = json.loads(path.read_text())
        train, test = ([np.array(own, dtype=np.int64) for own in given[name]] for name in ("train", "test"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"partition.path: cannot read lists of sample numbers from {path}: {error!r}") from error
    for owned, half in ((train, data.train), (test, data.test)):
        numbers = np.concatenate(owned) if owned else np.empty(0, dtype=np.int64)
        if len(owned) != clients:
            raise DataError(f"{path}: {half.name} has {len(owned)} lists for {clients} clients")
        if len(np.unique(numbers)) != len(numbers):
            raise DataError(f"{path}: {half.name} gives a sample to more than one place")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(half.y):
            raise DataError(f"{path}: {half.name} has numbers outside 0..{len(half.y) - 1}")
    if not all(map(len, train)):
        raise DataError(f"{path}: client {[len(own) for own in train].index(0)} has no training samples")
    return Partition(train, test)
