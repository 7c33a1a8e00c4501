"""Every model and every way to compute its gradients against torch as its users write it: nn.Module, SGD, one client after another."""

import pytest
import torch
from learning_modules import Small
from torch import nn
from torch.nn.functional import cross_entropy

from wflsim.errors import DataError, ScenarioError
from wflsim.exchange import Ask
from wflsim.learning.build import build
from wflsim.learning.data.partition import NaturalSpec, divide
from wflsim.learning.data.sets import DigitsSpec, SyntheticSpec, load
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.models import by_hand
from wflsim.learning.models.builtin import Cnn
from wflsim.learning.models.by_hand import CnnByHand
from wflsim.learning.models.gradients import Descent
from wflsim.learning.samples import Batches
from wflsim.learning.specs import CnnSpec, LinearSpec, MlpSpec, ModuleSpec, TrainSpec
from wflsim.rng import stream

DIGITS = DigitsSpec(name="digits")
STEEP = ZipfDirichletSpec(alpha=0.3, sigma=1.6)  # the small clients have less than one batch
SPECS = {
    "linear": LinearSpec(name="linear"),
    "mlp": MlpSpec(name="mlp", hidden=(16, 12)),
    "cnn": CnnSpec(name="cnn"),
    "module": ModuleSpec(name="module", module="learning_modules:Small", arguments={"width": 5}),
}
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def sgd(me, w, tau=5, eta=0.05):
    y = me.copies_of(w)
    for _ in range(tau):
        me.descend(y, eta)
    return {"y": y, "loss": me.f(y)}


def plain(name):
    """The model as torch's users write it, and how our flat vector is laid out in its parameters."""
    if name == "linear":  # ours keeps the bias as the last column
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), lambda w: [w.view(10, 65)[:, :-1], w.view(10, 65)[:, -1]]
    if name == "mlp":
        layers = [nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 10)]
        return nn.Sequential(nn.Flatten(), *layers), None
    if name == "module":
        return Small(5), None
    pool, layers = nn.MaxPool2d(2), [nn.Linear(128, 500), nn.ReLU(), nn.Linear(500, 10)]
    module = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), pool, nn.Conv2d(16, 32, 3, padding=1), pool, nn.Flatten(), *layers)

    def channels_first(w):
        shapes = [(16, 3, 3, 1), (16,), (32, 3, 3, 16), (32,), (500, 2, 2, 32), (500,), (10, 500), (10,)]
        parts = w.split([torch.Size(shape).numel() for shape in shapes])
        shaped = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return [part.movedim(-1, 1) if part.ndim == 4 else part for part in shaped]

    return module, channels_first


def load_into(module, layout, w):
    """Copy a flat vector into a module; with layout None, it is the parameters one after another."""
    own = list(module.parameters())
    parts = layout(w) if layout else w.split([parameter.numel() for parameter in own])
    with torch.no_grad():
        for parameter, part in zip(own, parts, strict=True):
            parameter.copy_(part.reshape(parameter.shape))


@pytest.mark.parametrize("way", ["auto", "threads", "vmap"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", SPECS)
def test_a_round_equals_a_plain_torch_loop(name, dtype, way):
    data = load(DIGITS, 10, 1)
    own = divide(STEEP, data, 10, seed=1).train
    assert min(map(len, own)) < 32
    ours = build(DIGITS, STEEP, SPECS[name], TrainSpec(dtype=dtype, gradients=way), 10, 1, threads=2)
    cohort, w = [7, 2, 9, 0], ours.initial()
    done = ours.run(Ask(cohort, sgd, shared={"w": w}), [(0, 0)] * 4)
    for client, result in zip(cohort, done.results, strict=True):
        module, layout = plain(name)
        module.to(w.dtype)
        load_into(module, layout, w)
        optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
        batches = Batches(stream(1, "batches", client, 0, 0), len(own[client]), 32, replacement=False)

        def loss(module=module, batches=batches, client=client):
            take = own[client][batches.next()]
            x, y = torch.from_numpy(data.train.x[take]).to(w.dtype), torch.from_numpy(data.train.y[take])
            return cross_entropy(module(x), y)

        for _ in range(5):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        expected, _ = plain(name)
        load_into(expected.to(w.dtype), layout, result.items["y"])
        for mine, theirs in zip(expected.parameters(), module.parameters(), strict=True):
            assert (mine - theirs).abs().max() < TOLERANCE[dtype]
        assert abs(result.items["loss"] - loss()) < 10 * TOLERANCE[dtype]


@pytest.mark.parametrize("way", ["auto", "threads", "vmap"])
@pytest.mark.parametrize("name", SPECS)
def test_descending_equals_asking_for_the_gradient(name, way):
    def descended(me, w):
        y = me.copies_of(w)
        for _ in range(3):
            me.descend(y, 0.1, w + 1.0, pull=0.02)
        return {"y": y}

    def by_gradient(me, w):
        y = me.copies_of(w)
        for _ in range(3):
            y += 0.02 * (w + 1.0 - y) - 0.1 * me.g(y)
        return {"y": y}

    ours = build(DIGITS, STEEP, SPECS[name], TrainSpec(dtype="float64", gradients=way), 10, 1, threads=2)
    one, other = (ours.run(Ask(range(10), work, shared={"w": ours.initial()}), [(0, 0)] * 10) for work in (descended, by_gradient))
    for mine, theirs in zip(one.results, other.results, strict=True):
        assert (mine.items["y"] - theirs.items["y"]).abs().max() < 1e-12
        assert mine.backward_samples == theirs.backward_samples == mine.forward_samples


@pytest.mark.parametrize("name", SPECS)
def test_one_and_two_threads_agree_bit_for_bit(name):
    runs = []
    for threads in (1, 2):
        ours = build(DIGITS, STEEP, SPECS[name], TrainSpec(), 10, 1, threads)
        done = ours.run(Ask(range(10), sgd, shared={"w": ours.initial()}), [(0, 0)] * 10)
        models = torch.stack([result.items["y"] for result in done.results])
        runs.append((models, ours.evaluate(lambda me, models=models: models), ours.evaluate(lambda me, w=models[0]: w)))
    assert torch.equal(runs[0][0], runs[1][0])
    assert runs[0][1:] == runs[1][1:]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 11)])
def test_the_compiled_step_of_the_cnn_is_its_python_bit_for_bit(shape, dtype):
    cnn = Cnn(shape, 10)
    gradients, w = CnnByHand(cnn), cnn.initial(3).to(dtype)
    compiled, python = w.clone().unsqueeze(0), w.clone().unsqueeze(0)
    for number in range(6):
        rng = stream(number, "samples")
        x = torch.from_numpy(rng.random((1, 32, *shape[1:], shape[0]))).to(dtype)
        labels = torch.from_numpy(rng.integers(0, 10, (1, 32)))
        towards = Descent(0.1, w + 1.0 if number % 2 else None, 0.02)
        gradients.descend(compiled, x, labels, None, towards)
        by_hand.cnn_step(python, gradients._shapes, gradients._sizes, x[0], labels[0], *towards)
        assert torch.equal(compiled, python)
    assert not torch.equal(compiled[0], w)


def test_without_torchscript_the_cnn_trains_in_python(monkeypatch):
    monkeypatch.delattr(torch.jit, "script")
    assert by_hand.compiled_step.__wrapped__() is by_hand.cnn_step


def test_the_papers_cnn_has_its_parameters_and_operations():
    cnn = Cnn((1, 28, 28), 10)
    assert cnn.parameters == 794_310
    # Multiply and add count as two: 9x16 per pixel, 144x32 per pixel of the second, and the two dense layers.
    by_hand = 2 * (9 * 16 * 28 * 28 + 144 * 32 * 14 * 14 + 1568 * 500 + 500 * 10)
    sample = torch.zeros(1, 28, 28, 1)
    assert cnn.flops(sample) == by_hand == cnn.counted_flops(sample)


def test_operations_by_formula_are_those_counted_while_the_model_runs():
    from wflsim.learning.models.builtin import Linear, Mlp

    for model, sample in ((Linear(64, 10), torch.zeros(1, 65)), (Mlp(64, (32, 16), 10), torch.zeros(1, 64))):
        assert model.flops(sample) == model.counted_flops(sample)


def test_what_the_cnn_cannot_look_at_is_refused():
    with pytest.raises(ScenarioError, match="cnn needs images"):
        build(SyntheticSpec(name="synthetic"), NaturalSpec(name="natural"), SPECS["cnn"], TrainSpec(), 3, 1)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("WithBatchNorm", "buffers"),
        ("WithDropout", "dropout"),
        ("FiveClasses", r"to \(2, 5\), not to \(2, 10\)"),
        ("Absent", "cannot import"),
        ("not_a_module", "is not a torch.nn.Module"),
    ],
)
def test_modules_that_cannot_be_federated_say_why(module, message):
    spec = ModuleSpec(name="module", module=f"learning_modules:{module}")
    with pytest.raises(DataError, match=message):
        build(DIGITS, ZipfDirichletSpec(), spec, TrainSpec(), 10, 1)


def test_a_modules_own_initialisation_is_kept_named_by_the_seed_and_leaves_torch_alone():
    state = torch.get_rng_state()
    first, again, other = (
        build(DIGITS, ZipfDirichletSpec(), SPECS["module"], TrainSpec(), 10, seed).initial() for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first[27 + 3 : 27 + 6].tolist() == [1, 1, 1]  # group norm's weights start at one
    assert torch.equal(torch.get_rng_state(), state)


def test_asking_for_an_absent_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # there may be one here
    with pytest.raises(ScenarioError, match="no CUDA device"):
        build(DIGITS, ZipfDirichletSpec(), SPECS["linear"], TrainSpec(device="cuda"), 10, 1)
