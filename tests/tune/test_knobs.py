"""Knobs besides tau: crossing, physical knobs by replay = by co-simulation, closed forms, ill-posed questions, fronts."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import lambertw
from small_scenarios import small

import wflsim
from wflsim.errors import ScenarioError
from wflsim.scenario import load
from wflsim.tune.folder import tables, tune
from wflsim.tune.setting import Setting, quantity, with_knobs
from wflsim.tune.space import space_of
from wflsim.tune.study import study
from wflsim.tune.words import answer

KNOBS = (
    "policies=[{name: fedavg, m: 4, tau: 3, eta: 0.1}]", "stop.rounds=30", "stop.target={accuracy: 0.4, metric: average}", "seeds=3", "tune.knobs.tau=[1, 4]",
)  # fmt: skip
OUTDOORS = ("radio={path_loss: {name: umi}, bandwidth: 180 kHz}", "devices={compute: raspberry_pi_4, modem: wifi_nic}")


def spent(folder, seed, label="fedavg"):
    """Energy and time of a plain run with one seed, summed by hand over its rounds."""
    rows = pd.read_csv(folder / label / f"seed-{seed}" / "rounds.csv")
    return sum(rows["energy_j"].tolist()), rows["end_s"].iloc[-1]


def test_every_combination_of_the_listed_knobs_is_tried_and_costs_what_a_run_with_it_does(tmp_path):
    scenario = small(*KNOBS, "seeds=2", "tune.knobs.m=[2, 6]", "tune.knobs.train.batch=[16, 32]", "sweep={grid: {radio.snr: [0 dB, 20 dB]}}")
    found = study(scenario, workers=1)
    for choice in found.choices.values():
        names = [one.name for one in choice.candidates]
        assert names == [f"tau={tau}, m={m}, train.batch={batch}" for tau, m, batch in itertools.product([1, 4], [2, 6], [16, 32])]
    best = found.choices["fedavg", 1].best
    overrides = [f"{'' if '.' in part else 'policies.0.'}{part}" for part in best.name.split(", ")]
    out = tmp_path / "run"
    wflsim.run(load(found.regimes[1].scenario, overrides), out, workers=1)
    assert best.cost.mean == pytest.approx(np.mean([spent(out, seed)[0] for seed in range(2)]), rel=1e-12)
    frames = tables(found)
    assert list(frames["map.csv"].columns[:6]) == ["policy", "regime", "radio.snr", "tau_star", "knobs.m", "knobs.train.batch"]
    assert set(frames["costs.csv"]["knobs.m"]) == {"2", "6"}
    assert len(frames["curves.csv"]) == 8 * 2


def test_power_by_replay_is_power_by_co_simulation_exactly(tmp_path):
    """What replay says about the power it found is what training in that world with that power writes down."""
    scenario = small(*KNOBS, *OUTDOORS, "tune.knobs.radio.power=auto")
    found = study(scenario, workers=1)
    one = found.choices["fedavg", 0].best
    power = dict(one.knobs)["radio.power"]
    live = ("radio.loss.outage_threshold=1e-30 linear",)  # the world could change the learning, and does not
    chosen = [f"radio.power={json.loads(power)}", f"policies.0.tau={one.tau}"]
    wflsim.run(load(small(*KNOBS, *OUTDOORS), [*chosen, *live]), tmp_path, workers=1)
    assert one.cost.mean == float(np.mean([spent(tmp_path, seed)[0] for seed in range(3)]))


@pytest.mark.parametrize("modem", ["wifi_nic", "lora"])
def test_the_power_of_least_energy_per_bit_of_a_linear_amplifier(modem, tmp_path):
    """(a + p/eff)/ln(1 + p g) is least where u ln u - u = a g eff - 1 with u = 1 + p g, that is u = e^(1 + W((a g eff - 1)/e))."""
    one = small(*KNOBS, "clients=1", "policies.0.m=1", "seeds=1", "stop.rounds=2", "tune.knobs.tau=[1]", OUTDOORS[0], "radio.power=20 mW", f"devices={{modem: {modem}}}", "devices.compute_idle_power=0.1",
                "devices.compute_active_power=1", "cell.radius=400 m", "tune.knobs.radio.power={least: 1 uW}")  # fmt: skip
    device = one.devices[0]
    wflsim.run(load(one, [f"radio.power={device.max_power}"]), tmp_path, workers=1)
    legs = pd.read_csv(tmp_path / "fedavg" / "seed-0" / "legs.csv")
    gain = 10 ** (legs.loc[legs["activity"] == "transmit", "snr_db"].iloc[0] / 10) / device.max_power
    ratio = (device.circuit_power + 0.1) * gain * device.amplifier_efficiency
    power_w = (np.exp(1 + lambertw((ratio - 1) / np.e).real) - 1) / gain
    found = study(one, workers=1).choices["fedavg", 0].nearest
    text = json.loads(dict(found.knobs)["radio.power"])
    if power_w < device.max_power:
        assert text in (quantity("radio.power", power_w), quantity("radio.power", power_w * 0.9996), quantity("radio.power", power_w * 1.0004))
    else:
        assert text == quantity("radio.power", device.max_power)


def test_the_clock_of_least_energy_of_a_pi_4():
    """phi* = (P_idle/((n - 1) P_dyn))^(1/n), without overhead of a step: 0.854 of the full clock."""
    one = small(*KNOBS, "clients=1", "policies.0.m=1", "seeds=1", "stop.rounds=2", "tune.knobs.tau=[1]", "devices={compute: raspberry_pi_4, step_overhead: 0, listen_power: 0}",
                "tune.knobs.devices.frequency=auto")  # fmt: skip
    found = study(one, workers=1).choices["fedavg", 0].nearest
    assert json.loads(dict(found.knobs)["devices.frequency"]) in ("1.281 GHz", "1.282 GHz"), "0.8542 x 1.5 GHz"


def test_an_ill_posed_question_is_answered_with_a_sentence_and_a_deadline_makes_it_well_posed():
    radio = "radio={path_loss: {name: umi}, bandwidth: 180 kHz}"
    power = "tune.knobs.radio.power={least: 1 mW, most: 200 mW}"
    with pytest.raises(ScenarioError, match=r"tune\.knobs\.radio\.power: less of it always takes less energy"):
        study(small(*KNOBS, radio, "devices.listen_power=0", "devices.receive_power=0", power), workers=1)
    with pytest.raises(ScenarioError, match=r"tune\.knobs\.devices\.frequency: less of it"):
        study(small(*KNOBS, "devices.listen_power=0", "tune.knobs.devices.frequency={least: 100 MHz, most: 1 GHz}"), workers=1)
    with pytest.raises(ScenarioError, match="less of it always"):
        study(small(*KNOBS, *OUTDOORS, "tune.accounting=paper", "tune.knobs.radio.power=auto"), workers=1)
    ideal = (*KNOBS, radio, "devices.listen_power=0", "devices.receive_power=0", power)
    free = study(small(*ideal, "tune.subject_to.time=1000 s"), workers=1).choices["fedavg", 0].best
    assert dict(free.knobs)["radio.power"] == '"1 mW"'
    slow = study(small(*ideal, "tune.objective=pareto"), workers=1).front["fedavg", 0]
    limit_s = (slow[0].time.mean * slow[-1].time.mean) ** 0.5
    held = study(small(*ideal, f"tune.subject_to.time={limit_s} s"), workers=1)
    best = held.choices["fedavg", 0].best
    again = small(*KNOBS, radio, "devices.listen_power=0", "devices.receive_power=0", f"radio.power={json.loads(dict(best.knobs)['radio.power'])}", f"tune.knobs.tau=[{best.tau}]", "tune.objective=time")
    took_s = study(again, workers=1).choices["fedavg", 0].best.cost.mean
    assert took_s <= limit_s
    assert took_s == pytest.approx(limit_s, rel=2e-3), "it uses the time that it has"
    none = study(small(*ideal, "tune.subject_to.time=1 ms"), workers=1)
    assert "No setting of fedavg keeps to tune.subject_to; nearest: tau=" in answer(none)


def test_a_physical_knob_that_can_change_the_learning_is_trained_and_that_is_said():
    lossy = small(*KNOBS, *OUTDOORS, "radio.loss.probability=0.2", "stop.rounds=8", "seeds=1", "tune.knobs.radio.power=[20 mW, 100 mW]")
    said = []
    found = study(lossy, workers=1, say=said.append)
    assert any("4 trainings, each in its own world" in words and "radio.loss.probability" in words for words in said)
    assert any("radio.power can change what is learnt here, so that every value of it is trained" in words for words in said)
    assert [one.name for one in found.choices["fedavg", 0].candidates][:2] == ["tau=1, radio.power=20 mW", "tau=1, radio.power=100 mW"]
    spec = lossy.tune
    ranged = small(*KNOBS, *OUTDOORS, "radio.loss.probability=0.2", "tune.knobs.radio.power={least: 1 mW, most: 100 mW}")
    space = space_of(ranged.tune, ranged, 0, [ranged])
    assert space.physical == ()
    assert [json.loads(value) for value in space.learning["radio.power"]] == ["1 mW", "3.162 mW", "10 mW", "31.62 mW", "100 mW"]
    assert spec is not None


def test_a_front_holds_what_no_other_beats_and_ends_at_the_least_energy_and_the_least_time(tmp_path):
    scenario = small(*KNOBS, *OUTDOORS, "seeds=2", "tune.objective=pareto", "tune.knobs.devices.frequency=auto")
    folder, found = tune(scenario, tmp_path / "front", workers=1)
    points = found.front["fedavg", 0]
    energy, time_s = (np.array([getattr(one, name).mean for one in points]) for name in ("energy", "time"))
    assert len(points) >= 3
    assert (np.diff(time_s) > 0).all()
    assert (np.diff(energy) < 0).all()
    assert energy[-1] == found.choices["fedavg", 0].best.cost.mean
    fastest = study(load(scenario, ["tune.objective=time"]), workers=1).choices["fedavg", 0].best
    assert time_s[0] == pytest.approx(fastest.cost.mean, rel=1e-9)
    assert len(pd.read_csv(folder / "front.csv")) == len(points)
    assert f"has {len(points)} points" in (folder / "answer.txt").read_text()
    empty = study(load(scenario, ["stop.target.accuracy=0.999", "stop.rounds=3"]), workers=1)
    assert "The front of fedavg is empty" in answer(empty)


def test_the_knobs_are_spelled_with_dots_or_nested_and_wrong_ones_are_refused():
    found = small("tune.knobs={m: [2, 4], radio.power: {least: 1 mW}, train: {batch: [8, 16]}}").tune.knobs
    assert list(found.others) == ["m", "radio.power", "train.batch"]
    assert load(small("tune.knobs.m=[2]").model_dump(mode="json")) == small("tune.knobs.m=[2]")
    for wrong, words in {
        "tune.knobs.mm=[2]": "did you mean 'm'", "tune.knobs.data.name=[mnist]": "Allowed: keys of the blocks radio, cell", "tune.knobs.m=[2, 2]": "given twice",
    }.items():  # fmt: skip
        with pytest.raises(ScenarioError, match=words):
            small(wrong)
    with pytest.raises(ScenarioError, match=r"is swept, too"):
        small("tune.knobs.radio.power=[1 W]", "sweep={grid: {radio.power: [1 mW, 2 mW]}}")
    for knob, words in {"radio.bandwidth=auto": "nothing in the scenario limits it", "radio.power={least: 2 W, most: 1 W}": "no value is between", "m=[99]": "draws 99 of only 6",
                        "cell.access={least: 1, most: 2}": "cell.access"}.items():  # fmt: skip
        with pytest.raises(ScenarioError, match=words):
            study(small(*KNOBS, f"tune.knobs.{knob}"), workers=1)


def test_a_value_is_written_as_a_scenario_reads_it():
    assert [quantity("radio.power", one) for one in (0.0316228, 1.0, 2.5e-7)] == ["31.62 mW", "1 W", "0.25 uW"]
    assert quantity("devices.0.frequency", 1.2816e9) == "1.282 GHz"
    assert quantity("eta", 0.0316228) == 0.03162
    scenario = small()
    assert with_knobs(scenario, 0, (("radio.power", '"31.62 mW"'),)).radio.power == [0.03162]
    assert str(Setting(3, (("m", "4"),))) == "tau=3, m=4"
