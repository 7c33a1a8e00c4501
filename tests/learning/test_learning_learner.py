"""The learner against a plain torch loop, its meters, its stores, its evaluation."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from wflsim.exchange import Ask, Coded
from wflsim.learning.build import build
from wflsim.learning.data.partition import divide
from wflsim.learning.data.sets import DigitsSpec, load
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.samples import Batches
from wflsim.learning.specs import LinearSpec, MlpSpec, TrainSpec
from wflsim.rng import stream
from wflsim.target import metrics, worst_by_chance

DIGITS = DigitsSpec(name="digits")
MODELS = {"linear": LinearSpec(name="linear"), "mlp": MlpSpec(name="mlp", hidden=(16, 12))}


def learner(model="linear", clients=10, seed=1, threads=1, partition=None, **train):
    return build(DIGITS, partition or ZipfDirichletSpec(alpha=0.3, sigma=0.5), MODELS[model], TrainSpec(**train),
                 clients, seed, threads)


def sgd(me, w, tau=5, eta=0.3):
    y = me.copies_of(w)
    for _ in range(tau):
        y.sub_(me.g(y), alpha=eta)
    return {"y": y}


def keys(cohort, round=0):
    return [(round, 0)] * len(cohort)


def softmax_regression(w):
    whole = w.view(10, 65)
    return lambda x: x @ whole[:, :-1].T + whole[:, -1]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_and_losses_agree_with_each_other(name):
    seen = {}

    def probe(me, w):
        y = me.copies_of(w)
        batch = me.batch()
        seen["g"], (seen["gf"], seen["loss"]), seen["f"] = me.g(y, batch), me.gf(y, batch), me.f(y, batch)
        step = 1e-6 * torch.nn.functional.normalize(seen["g"], dim=1)
        seen["slope"] = (me.f(y + step, batch) - me.f(y - step, batch)) / 2e-6
        seen["whole"] = me.gf(y, me.everything)
        seen["alike"] = [torch.equal(me.f(w, on), me.f(y, on)) for on in (batch, me.everything)]
        return {"loss": seen["f"]}

    ours = learner(name, dtype="float64")
    ours.run(Ask([0, 3, 4], probe, shared={"w": ours.initial()}), keys([0, 3, 4]))
    assert torch.equal(seen["g"], seen["gf"])
    assert torch.allclose(seen["loss"], seen["f"], rtol=1e-12)
    assert torch.allclose(seen["slope"], seen["g"].norm(dim=1), rtol=1e-6)
    assert seen["whole"][0].shape == seen["g"].shape
    assert seen["alike"] == [True, True], "one w for everybody is the same as a row each"


def test_everything_is_the_mean_over_all_own_samples():
    data, ours = load(DIGITS, 10, 1), learner(dtype="float64")
    own = divide(ZipfDirichletSpec(alpha=0.3, sigma=0.5), data, 10, seed=1).train
    w = ours.initial()
    done = ours.run(Ask([1, 8], lambda me, w: {"f": me.f(me.copies_of(w), me.everything)}, shared={"w": w}), keys([1, 8]))
    module = softmax_regression(w)
    for result in done.results:
        x, y = (torch.from_numpy(part[own[result.client]]) for part in (data.train.x, data.train.y))
        assert result.items["f"].item() == pytest.approx(cross_entropy(module(x.double().flatten(1)), y).item(), 1e-12)
        assert (result.forward_samples, result.backward_samples) == (len(y), 0)
        assert (result.forward_steps, result.backward_steps) == (-(-len(y) // min(32, len(y))), 0), "ceil(d/b) batches"


def test_bits_and_samples_are_counted_from_what_is_sent_and_done():
    ours = learner(dtype="float64", partition=ZipfDirichletSpec(alpha="inf", sigma=1.6))
    parameters = ours.parameters

    def work(me, w, t, tau, lam):
        assert isinstance(tau, list)
        assert lam.shape == (len(me.clients), 3)
        y = sgd(me, w)["y"]
        return {"y": y, "z": y, "q": Coded(y.clone(), 100), "loss": me.f(y)}

    cohort = [0, 9]
    ask = Ask(cohort, work, shared={"w": ours.initial(), "t": 3}, each={"tau": [1, 2], "lam": torch.zeros(2, 3)})
    done = ours.run(ask, keys(cohort))
    assert done.shared_bits == 32 * parameters + 32
    assert done.each_bits == 32 + 3 * 32
    for result in done.results:
        batch = min(32, ours.samples[result.client])
        assert result.up_bits == 32 * parameters + 100 + 32
        assert (result.forward_samples, result.backward_samples) == (6 * batch, 5 * batch)
        assert (result.forward_steps, result.backward_steps) == (6, 5)
        assert result.items["q"].shape == (parameters,)
        assert result.items["loss"].shape == ()
    assert min(32, ours.samples[9]) < 32 <= ours.samples[0]


def test_batches_depend_on_client_and_key_only():
    ours = learner()
    w = ours.initial()
    together = ours.run(Ask(np.array([3, 5]), sgd, shared={"w": w}), [(2, 0), (2, 0)]).results
    alone = ours.run(Ask([5], sgd, shared={"w": w}), [(2, 0)]).results
    later = ours.run(Ask([5], sgd, shared={"w": w}), [(2, 1)]).results
    assert torch.allclose(together[1].items["y"], alone[0].items["y"], atol=1e-6)
    assert not torch.allclose(later[0].items["y"], alone[0].items["y"], atol=1e-3)


def test_batches_without_replacement_pass_over_everything_and_with_replacement_repeat():
    pass_of_10 = Batches(stream(0, "t"), samples=10, batch=4, replacement=False)
    two = np.concatenate([pass_of_10.next(), pass_of_10.next()])
    assert len(set(two)) == 8
    assert len(set(pass_of_10.next())) == 4
    repeated = Batches(stream(0, "t"), samples=10, batch=10, replacement=True)
    assert any(len(set(repeated.next())) < 10 for _ in range(5))
    assert len(Batches(stream(0, "t"), samples=3, batch=4, replacement=True).next()) == 3


def test_memory_waits_for_delivery_personal_for_computation_and_scratch_ends_with_the_round():
    ours = learner()
    parameters = ours.parameters

    def work(me, w):
        assert me.memory["g"].shape == (len(me.clients), parameters)
        for store in (me.memory, me.personal, me.scratch):
            store["g"] = store["g"] + 1
            assert torch.equal(store["g"], store["g"])
        me.personal["v"] = me.personal.get("v", w) + 1
        return {"loss": me.f(me.copies_of(w)), "was": me.scratch["g"][:, 0]}

    ask = Ask([4, 6], work, shared={"w": torch.full((parameters,), 7.0)})
    first, second = ours.run(ask, keys([4, 6])).results
    assert ours.rows("memory", "g") == ours.rows("personal", "g") == {}
    ours.keep(first)
    ours.keep(second)
    ours.commit(second)
    assert list(ours.rows("memory", "g")) == [6]
    assert list(ours.rows("personal", "g")) == [4, 6]
    assert ours.rows("memory", "g")[6].untyped_storage().nbytes() == 4 * parameters
    four, six = ours.run(ask, keys([4, 6], 1)).results
    assert [four.memory["g"][0], six.memory["g"][0], four.personal["v"][0]] == [1, 2, 9]
    assert four.items["was"] == 2
    ours.end_round()
    assert ours.run(ask, keys([4, 6], 2)).results[0].items["was"] == 1


def test_what_is_read_may_be_changed_in_place():
    ours = learner()

    def work(me, w):
        me.memory["g"].add_(5)
        return {"was": me.memory["g"][:, 0]}

    ask = Ask([0], work, shared={"w": ours.initial()})
    result = ours.run(ask, keys([0])).results[0]
    result.memory["g"] = torch.ones(ours.parameters)
    ours.commit(result)
    for _ in range(2):
        assert ours.run(ask, keys([0])).results[0].items["was"] == 1


def test_rows_for_some_defaults_for_others():
    ours = learner()

    def work(me, fill):
        rows = me.personal.get("v", fill)
        me.personal["v"] = rows + 1
        return {"v": rows}

    fill = {"fill": torch.zeros(())}
    ours.keep(ours.run(Ask([2], work, shared=fill), keys([2])).results[0])
    assert [r.items["v"].item() for r in ours.run(Ask([1, 2], work, shared=fill), keys([1, 2])).results] == [0, 1]


def test_a_store_refuses_what_is_not_one_row_per_client():
    def work(me, w):
        me.memory["g"] = w
        return {}

    ours = learner()
    with pytest.raises(ValueError, match=r"one row per client \(2\), got shape \[650\]"):
        ours.run(Ask([0, 1], work, shared={"w": ours.initial()}), keys([0, 1]))


def test_a_snapshot_survives_saving_and_is_not_touched_by_what_follows(tmp_path):
    def work(me, w):
        me.memory["g"] = me.memory["g"] + 1
        return {"loss": me.f(me.copies_of(w))}

    ours, other = learner(), learner()
    ask = Ask([0, 1], work, shared={"w": ours.initial()})
    for result in ours.run(ask, keys([0, 1])).results:
        ours.commit(result)
    torch.save(ours.snapshot(), tmp_path / "s.pt")
    for result in ours.run(ask, keys([0, 1])).results:
        ours.commit(result)
    other.restore(torch.load(tmp_path / "s.pt", weights_only=True))
    assert other.rows("memory", "g")[1][0] == 1
    assert ours.rows("memory", "g")[1][0] == 2


def test_evaluation_is_per_client_and_personal_models_are_their_owners():
    data, ours = load(DIGITS, 10, 1), learner(dtype="float64")
    own = divide(ZipfDirichletSpec(alpha=0.3, sigma=0.5), data, 10, seed=1).test
    done = ours.run(Ask(range(10), sgd, shared={"w": ours.initial()}), keys(range(10)))
    models = torch.stack([result.items["y"] for result in done.results])
    one, each = ours.evaluate(lambda me: models[3]), ours.evaluate(lambda me: models)
    assert each[0][3] == one[0][3]
    for client in range(10):
        x, y = (torch.from_numpy(part[own[client]]) for part in (data.test.x, data.test.y))
        logits = softmax_regression(models[client])(x.double().flatten(1))
        assert each[0][client] == (logits.argmax(1) == y).double().mean().item()
        assert each[1][client] == pytest.approx(cross_entropy(logits, y).item(), 1e-12)


def test_initial_weights_depend_on_the_seed_alone():
    state = torch.get_rng_state()
    assert torch.equal(learner("mlp").initial(), learner("mlp").initial())
    assert not torch.equal(learner("mlp").initial(), learner("mlp", seed=2).initial())
    assert torch.equal(torch.get_rng_state(), state)


def test_metrics_by_hand():
    m = metrics([0.5, None, 1.0, 0.9])
    assert m["average"] == pytest.approx(0.8)
    assert m["worst"] == m["worst10"] == 0.5
    assert m["std"] == pytest.approx(np.sqrt((0.09 + 0.04 + 0.01) / 3))
    assert m["jain"] == pytest.approx(2.4**2 / (3 * (0.25 + 1 + 0.81)))
    assert metrics([i / 20 for i in range(20)])["worst10"] == pytest.approx(0.025)
    assert metrics([0.0, 0.0])["jain"] == 1.0
    assert metrics([None])["worst"] is None


def test_worst_by_chance_against_a_simulation():
    n = [20, 50, 10, 30]
    draws = stream(0, "t").binomial(n, 0.8, size=(20_000, 4)) / n
    assert worst_by_chance(0.8, [*n, 0]) == pytest.approx(draws.min(axis=1).mean(), abs=2e-3)
    assert worst_by_chance(1.0, n) == pytest.approx(1.0)
