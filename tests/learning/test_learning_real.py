"""The real sets: need WFLSIM_DATA (a directory with MNIST/raw, FashionMNIST/raw, KMNIST/raw, weights), and minutes."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from wflsim.exchange import Ask
from wflsim.learning.build import build
from wflsim.learning.data.partition import class_counts, divide
from wflsim.learning.data.sets import MnistSpec, load
from wflsim.learning.data.vision import data_dir
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.models import backbone
from wflsim.learning.specs import CnnSpec, LinearSpec, ResNet18LastSpec, TrainSpec
from wflsim.policies.drdm import DRDM
from wflsim.simulation.loop import Instant, drive
from wflsim.simulation.training import Training

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("WFLSIM_DATA" not in os.environ, reason="WFLSIM_DATA names no copy of the real data sets"),
]
KMNIST = MnistSpec(name="kmnist")


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("this must not touch the network")

    monkeypatch.setattr("socket.getaddrinfo", refuse)


def rounds(ours, work, count, m=20):
    """FedAvg with the first m clients; the mean model."""
    w = ours.initial()
    for s in range(count):
        done = ours.run(Ask(range(m), work, shared={"w": w}), [(s, 0)] * m)
        w = sum(result.items["y"] for result in done.results) / m
    return w


def sgd(me, w, tau=10, eta=0.05):
    y = me.copies_of(w)
    for _ in range(tau):
        me.descend(y, eta)
    return {"y": y}


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
def test_the_three_sets_load_without_network(name):
    data = load(MnistSpec(name=name), 30, 1)
    assert (data.train.x.shape, data.test.x.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    assert (data.train.x.min(), data.train.x.max(), data.classes) == (0, 1, 10)
    scaled = load(MnistSpec(name=name, standardise=True), 30, 1)
    assert abs(scaled.train.x.mean(dtype=float)) < 1e-4
    assert abs(scaled.train.x.std(dtype=float) - 1) < 1e-4
    # The test images are scaled by the same two numbers.
    assert np.ptp(scaled.test.x) == pytest.approx(np.ptp(scaled.train.x), rel=1e-6)


@pytest.mark.parametrize("sigma", [0, 0.3, 0.5, 0.7])
def test_the_papers_partition_of_kmnist(sigma):
    data = load(KMNIST, 30, 1)
    owned = divide(ZipfDirichletSpec(alpha=0.1, sigma=sigma), data, 30, seed=1)
    table = class_counts(owned.train, data.train.y, 10)
    i = np.arange(1, 31)
    assert np.abs(table.sum(axis=1) - 60_000 / (i**sigma * (i**-sigma).sum())).max() < 1
    assert (table.sum(axis=0) == 6_000).all()
    mixes = table / table.sum(axis=1, keepdims=True)
    assert np.sort(mixes, axis=1)[:, -2:].sum(axis=1).mean() > 0.6  # alpha = .1: two classes hold most of a client
    tests = class_counts(owned.test, data.test.y, 10)
    assert np.abs(tests - table / 6).max() < 1.5, "a client's test images have the class mix of its training images"


def test_a_linear_model_learns_mnist():
    ours = build(MnistSpec(name="mnist"), ZipfDirichletSpec(alpha=1.0), LinearSpec(name="linear"), TrainSpec(), 30, 1, 2)
    assert ours.parameters == 7850
    w = rounds(ours, sgd, 20)
    accuracy, _ = ours.evaluate(lambda me: w)
    assert np.mean(accuracy) > 0.8


class Resident:
    """A sink that looks at the memory of this process after every round."""

    def __init__(self):
        self.mb = []

    def __call__(self, finished):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts memory by /proc")
def test_a_hundred_rounds_of_drdm_do_not_grow():
    ours = build(KMNIST, ZipfDirichletSpec(alpha=0.1), CnnSpec(name="cnn"), TrainSpec(), 30, 1, threads=2)
    training, resident = Training(DRDM(m=20, tau=10), ours, seed=1, evaluate_every=10), Resident()
    drive(training, Instant(30), resident, lambda row: "done" if row.round == 99 else None, 30, seed=1)
    mb = resident.mb
    print(f"peak {max(mb):.0f} MB, round 10 {mb[9]:.0f} MB, round 100 {mb[-1]:.0f} MB")
    # Soon every client has its memory (30 x 3.2 MB) and evaluation its buffers, which the process keeps; from then on
    # rounds only reuse what others freed. A single row kept per round would be 60 x 3.2 MB more: above this bound.
    assert max(mb[60:]) < max(mb[10:40]) + 130
    assert len(ours.rows("memory", "g")) == 30


@pytest.mark.usefixtures("no_network")
def test_resnet_features_are_computed_once(monkeypatch):
    spec, data = ResNet18LastSpec(name="resnet18_last"), MnistSpec(name="fashion_mnist")
    arguments = (data, ZipfDirichletSpec(alpha=0.5), spec, TrainSpec(), 30)
    began = time.perf_counter()
    first = build(*arguments, seed=1, threads=2)
    took = time.perf_counter() - began

    def never(*args):
        raise AssertionError("the features are in the cache")

    monkeypatch.setattr(backbone, "_compute", never)
    began = time.perf_counter()
    second = build(*arguments, seed=2, threads=2)
    again = time.perf_counter() - began
    print(f"first build {took:.1f} s, second {again:.1f} s")
    assert first.parameters == second.parameters == 5130
    assert again < 10
    assert list((data_dir() / "features").glob("*.tmp")) == []
    w = rounds(second, sgd, 30)
    accuracy, _ = second.evaluate(lambda me: w)
    assert np.mean(accuracy) > 0.6
