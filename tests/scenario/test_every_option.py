"""Every option of a scenario changes something, or is refused: all specs are walked, so a new option is in it by itself.

For each field there is a world or a policy in which it must matter (`CASES`) and another value; for a field that chooses among
words, every other word is tried. Compared is everything a run leaves: rows, legs, trace, reason of its end, labels.
"""

from __future__ import annotations

import copy
import json
import typing
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
import yaml
from pydantic import BaseModel, ValidationError
from rigs import Rows
from scenario_specs import all_specs

from wflsim.errors import ScenarioError
from wflsim.learning.build import build
from wflsim.policies.registry import POLICIES
from wflsim.records import trace_to_json
from wflsim.scenario import assign
from wflsim.scenario.schema import Scenario
from wflsim.simulation.loop import drive
from wflsim.simulation.stop import Stop
from wflsim.simulation.training import Training
from wflsim.world.world import World, influences

BASE = yaml.safe_load("""
name: small
clients: 6
data: {name: digits}
partition: {alpha: 0.3, sigma: 0.5}
model: {name: linear}
train: {batch: 16}
policies: [{name: fedavg, m: 3, tau: 2}]
radio: {snr: [10 dB, 0 dB, 5 dB], bandwidth: 200 kHz}
stop: {rounds: 2}
""")
PLACES = {
    "Scenario": "", "RadioSpec": "radio", "DownlinkSpec": "radio.downlink", "LossSpec": "radio.loss", "TraceSpec": "radio.trace",
    "PowerControlSpec": "radio.power_control", "CellSpec": "cell", "DeviceSpec": "devices.0", "ServerSpec": "server", "D2dSpec": "d2d", "FedcsSpec": "server.fedcs", "OortSpec": "server.oort",
    "TrainSpec": "train", "CompressSpec": "train.compress", **dict.fromkeys(("Identity", "Quantise", "Dithering", "RandK", "TopK"), "train.compress.up"), "StopSpec": "stop", "Target": "stop.target", "Decay": "policies.0.eta", "AdaptiveTau": "policies.0.tau", "AdaptSpec": "policies.0.tau.adapt",
    **dict.fromkeys(("LogDistance", "Uma", "Umi", "Inh"), "radio.path_loss"),
    **dict.fromkeys(("Rayleigh", "Rician"), "radio.fading"),
    **dict.fromkeys(("Ring", "Torus", "Complete", "ErdosRenyi", "WithinDistance"), "d2d.topology"),
    **dict.fromkeys(("Shannon", "Gap", "Cqi", "Fixed"), "radio.rate"),
    **dict.fromkeys(("Periodic", "Windows", "Diurnal", "Churn", "FileHours"), "devices.0.availability"), "OutagesSpec": "outages", "FleetSpec": "fleet", "CorrelationSpec": "fleet.correlation",
    **dict.fromkeys(("DigitsSpec", "MnistSpec", "SyntheticSpec", "NpzSpec"), "data"),
    **dict.fromkeys(("ZipfDirichletSpec", "IidSpec", "ShardsSpec", "FileSpec", "NaturalSpec"), "partition"),
    **dict.fromkeys(("LinearSpec", "MlpSpec", "CnnSpec", "ResNet18LastSpec", "ModuleSpec"), "model"),
    **{policy.__name__: "policies.0" for policy in POLICIES},
}  # fmt: skip
"""Where a block of this class stands in a scenario."""
WORDS = {"Scenario.name", "Scenario.description", "Scenario.sweep", "Scenario.tune", "Scenario.accept"}
"""What is printed only, and the blocks above."""


class Case(NamedTuple):
    """Another value for an option, in a scenario where it must matter."""

    value: Any = None
    """None: of an option that chooses among words, every other word."""
    given: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple's default)
    """Dotted keys that are set first."""
    refused: str = ""
    """Instead of mattering, it is refused with these words."""
    slow: bool = False
    """Needs the real data."""


UMA = {"radio": {"path_loss": {"name": "uma"}, "bandwidth": "200 kHz"}}
SLOW_CLOCK = {"devices.0.max_frequency": "2 GHz"}
LOSSY = {"radio.loss.probability": 0.5}
NATURAL = {"data": {"name": "synthetic"}, "partition": {"name": "natural"}}
AWAY = {"name": "periodic", "period": "10 s", "open": "5 s"}
MORNING = {"devices.0.availability.start": "1 h"}
"""A run begins at midnight: it waits for its first window."""
STEEP = {"policies.0.gamma": 0.1}
"""A dual step that shows."""
LONG = {"stop.rounds": 8}
STALE = {"policies.0.m": 4, **LONG}
"""Asynchronous, with several tasks under way: most arrivals are stale."""

PEERS = {"policies": [{"name": "dsgd"}]}
"""A policy without a server."""

SPLIT = {**LONG, "policies.0.m": 6, "policies.0.eps1": 1e5, "policies.0.eps2": 0.0, "policies.0.warmup": 1}
"""Clusters that split whenever they may."""

GIVEN = {
    **{name: {"radio": {"path_loss": {"name": kind}, "bandwidth": "200 kHz"}}
       for name, kind in (("LogDistance", "log_distance"), ("Uma", "uma"), ("Umi", "umi"), ("Inh", "inh"))},
    "Rayleigh": {"radio.fading": {"name": "rayleigh"}}, "Rician": {"radio.fading": {"name": "rician"}},
    "Gap": {"radio.rate": {"name": "gap"}}, "Fixed": {"radio.rate": {"name": "fixed"}},
    "PowerControlSpec": {**UMA, "radio.power_control": {"target": 1e-14}},
    "Periodic": {"devices.0.availability": AWAY},
    "Diurnal": {"devices.0.availability": {"name": "diurnal"}},
    "Churn": {"devices.0.availability": {"name": "churn", "stay": "1 s", "away": "1 s"}, **LONG}, "OutagesSpec": {"outages": {"groups": 2, "every": "1 s", "length": "1 s"}, **LONG},
    "FileHours": {"devices.0.availability": {"name": "file", "file": "hours a"}},
    "Windows": {"devices.0.availability": {"name": "windows", "windows": [[0, 100]]}},
    "CorrelationSpec": {**UMA, "fleet": {}, "devices.0.spread": 1.0},
    "MnistSpec": {"data": {"name": "mnist"}}, "SyntheticSpec": NATURAL,
    "ShardsSpec": {"partition": {"name": "shards"}}, "MlpSpec": {"model": {"name": "mlp"}},
    "ResNet18LastSpec": {"model": {"name": "resnet18_last"}, "data": {"name": "fashion_mnist"}},
    "ModuleSpec": {"model": {"name": "module", "module": "learning_modules:Small"}},
    "Quantise": {"train.compress.up": {"name": "quantise"}}, "Dithering": {"train.compress.up": {"name": "dithering"}},
    "RandK": {"train.compress.up": {"name": "rand_k", "share": 0.1}}, "TopK": {"train.compress.up": {"name": "top_k", "share": 0.1}},
    "Target": {"stop": {"rounds": 4, "target": {"accuracy": 0.15, "metric": "worst"}}},
    "FedcsSpec": {"server.selector": "fedcs"}, "OortSpec": {"server.selector": "oort", **LONG, "policies.0.m": 2},
    "D2dSpec": PEERS, "ErdosRenyi": {**PEERS, "d2d.topology": {"name": "erdos_renyi", "probability": 0.4}}, "WithinDistance": {**PEERS, "d2d.topology": {"name": "distance", "within": 600}},
    "Decay": {"policies": [{"name": "drfa", "m": 3, "tau": 2, "eta": {"start": 0.1}}]},
    **{key: {"policies": [{"name": "fedavg", "tau": {"adapt": {"budget": "10 s", "phi": 0.001}}}], "stop.rounds": 5} for key in ("AdaptiveTau", "AdaptSpec")},
    **{kind.__name__: {"policies": [{"name": kind.model_fields["name"].default, **({} if kind.__name__ in ("LocalSGD", "AFL", "SCAFFPD") or kind.decentralised else {"m": 3}),
                                     **({} if typing.get_origin(kind.model_fields["tau"].annotation) is Literal else {"tau": 2})}], **(LONG if kind.asynchronous else {})}
       for kind in POLICIES},
}  # fmt: skip
"""Set for every field of a class, before the field's own."""
SERVERS = ("FedAvgM", "FedAdagrad", "FedAdam", "FedYogi")

CASES: dict[str, Case] = {
    "Scenario.clients": Case(7), "Scenario.seeds": Case([1]), "Scenario.evaluate_every": Case(2), "Scenario.data": Case({"name": "synthetic"}, {"partition": {"name": "natural"}, "data": {"name": "synthetic", "beta": 0}}),
    "Scenario.partition": Case({"name": "iid"}), "Scenario.model": Case({"name": "mlp"}),
    "Scenario.policies": Case([{"name": "fedprox", "m": 3, "tau": 2}]), "Scenario.devices": Case([{"modem": "lte"}]),
    # radio
    "RadioSpec.snr": Case("7 dB"), "RadioSpec.path_loss": Case({"name": "umi"}, UMA), "RadioSpec.trace": Case("trace a", {"radio": {}}),
    "RadioSpec.reading": Case(), "RadioSpec.bandwidth": Case("300 kHz"), "RadioSpec.power": Case(["50 mW", "200 mW"]),
    "RadioSpec.power_control": Case({"target": 1e-14}, UMA), "RadioSpec.carrier": Case("3.5 GHz", UMA),
    "RadioSpec.noise_figure": Case("9 dB", UMA), "RadioSpec.interference_margin": Case("3 dB", UMA), "RadioSpec.interference": Case(["0 W", "1e-13 W"], UMA),
    "RadioSpec.fading": Case("rayleigh"), "RadioSpec.rate": Case("gap"),
    "RadioSpec.patience": Case("3 s", {"radio.rate": {"name": "fixed", "efficiency_bps_per_hz": 3.0}, "radio.downlink.snr": "20 dB"}),
    "LogDistance.at_1km_db": Case(120.0), "LogDistance.exponent": Case(3.0), "LogDistance.sigma_db": Case(4.0), "LogDistance.correlation": Case("20 m"),
    "Uma.base_height": Case(35.0), "Uma.client_height": Case(8.0), "Umi.base_height": Case(12.0), "Umi.client_height": Case(8.0),
    "Inh.base_height": Case(4.0), "Inh.client_height": Case(1.5), "TraceSpec.file": Case("trace b", {"radio": {"trace": "trace a"}}),
    "PowerControlSpec.target": Case(2e-14), "PowerControlSpec.share": Case(0.95),
    "Rayleigh.time": Case(), "Rayleigh.speed": Case("20 m/s"), "Rayleigh.block": Case("3 ms"),
    "Rician.time": Case(), "Rician.speed": Case("20 m/s"), "Rician.block": Case("3 ms"), "Rician.k": Case("0 dB"),
    "Gap.gap": Case("6 dB"), "Fixed.efficiency_bps_per_hz": Case(0.5),
    "LossSpec.probability": Case(0.5), "LossSpec.outage_threshold": Case("3 dB"), "LossSpec.waterfall": Case("3 dB"), "LossSpec.attempts": Case(4, LOSSY),
    "LossSpec.block": Case("1 kbit", {**LOSSY, "radio.loss.attempts": 3}),
    "DownlinkSpec.snr": Case("20 dB"), "DownlinkSpec.bandwidth": Case("1 MHz"), "DownlinkSpec.power": Case(2.0, UMA), "DownlinkSpec.noise_figure": Case("5 dB", UMA),
    # cell, devices, server
    "CellSpec.radius": Case(300.0, UMA), "CellSpec.min_distance": Case(450.0, UMA), "CellSpec.distances": Case([100.0, 400.0], UMA),
    "CellSpec.speed": Case("30 m/s", UMA), "CellSpec.access": Case(), "CellSpec.deadline": Case("0.05 s", {"cell.access": "least_energy"}),
    "DeviceSpec.compute": Case(), "DeviceSpec.modem": Case(None, {"radio.power": "5 mW"}), "DeviceSpec.share": Case(3.0, {"devices": [{}, {"cycles_per_sample": 1e6}]}),
    "DeviceSpec.cycles_per_sample": Case(2e6), "DeviceSpec.frequency": Case("2 GHz"), "DeviceSpec.max_frequency": Case("0.9 GHz", refused="full clock"),
    "DeviceSpec.dvfs": Case(None, {"devices.0.min_frequency": "100 MHz"}), "DeviceSpec.min_frequency": Case("990 MHz", {"devices.0.min_frequency": "100 MHz", "devices.0.dvfs": "just_in_time"}),
    "DeviceSpec.kappa": Case(1e-27), "DeviceSpec.speed": Case("1 MFLOP/s", {"devices": [{}]}), "DeviceSpec.step_overhead": Case("1 ms"), "DeviceSpec.call_overhead": Case("1 ms"),
    "DeviceSpec.memory_share": Case(0.5, SLOW_CLOCK), "DeviceSpec.clock_exponent": Case(1.0, SLOW_CLOCK),
    "DeviceSpec.compute_idle_power": Case("1 W"), "DeviceSpec.compute_active_power": Case("3 W"), "DeviceSpec.spread": Case(0.5),
    "DeviceSpec.receive_power": Case("1 W"), "DeviceSpec.receive_energy_per_bit": Case(1e-6), "DeviceSpec.listen_power": Case("1 W"), "DeviceSpec.sleep_power": Case("1 W"),
    "DeviceSpec.radiated_power": Case("50 mW"), "DeviceSpec.max_power": Case("50 mW", refused="radiates at most"),
    "DeviceSpec.amplifier_efficiency": Case(0.5), "DeviceSpec.amplifier_exponent": Case(0.5, {"devices.0.max_power": "200 mW"}), "DeviceSpec.circuit_power": Case("1 W"),
    "DeviceSpec.transmit_energy_per_bit": Case(1e-6), "DeviceSpec.wake": Case("0.1 s"), "DeviceSpec.wake_power": Case("1 W", {"devices.0.wake": "0.1 s"}),
    "DeviceSpec.tail": Case("1 s", {"devices.0.tail_power": "1 W"}), "DeviceSpec.tail_power": Case("1 W", {"devices.0.tail": "1 s"}),
    "DeviceSpec.battery": Case(1e-2), "DeviceSpec.availability": Case(AWAY), "DeviceSpec.dropout": Case(0.9),
    "Diurnal.start": Case("2 h", MORNING), "Diurnal.length": Case("1 h"), "Diurnal.spread": Case("0 s", MORNING), "Churn.join": Case("5 s"), "Churn.stay": Case("0.3 s"),
    "Churn.away": Case("5 s"), "Churn.leave": Case(0.9), "Scenario.outages": Case({"groups": 1, "every": "0.1 s", "length": "1 s"}),
    "OutagesSpec.groups": Case(1), "OutagesSpec.every": Case("0.1 s"), "OutagesSpec.length": Case("9 s"), "FileHours.file": Case("hours b", LONG),
    "FileHours.layout": Case("flash", refused="not JSON"), "FileHours.loop": Case(True, {**LONG, "devices.0.availability": {"name": "file", "file": "hours b"}}), "FileHours.draw": Case("with_replacement", LONG),
    "Scenario.fleet": Case({}, {"devices.0.spread": 1.0}), **{f"CorrelationSpec.{name}": Case(0.9) for name in ("speed_data", "speed_distance", "data_distance")},
    "Periodic.period": Case("20 s"), "Periodic.open": Case("8 s"), "Windows.windows": Case([[0, 0.5], [1, 100]]),
    "ServerSpec.compute_budget": Case("100 ms"), "ServerSpec.deadline": Case("0.4 s"), "ServerSpec.first": Case(1), "ServerSpec.quorum": Case(3, {"server.deadline": "0.43 s"}),
    "ServerSpec.aggregation": Case("1 s"), "ServerSpec.loss_detection": Case(None, {**LOSSY, "server.deadline": "20 s"}),
    "ServerSpec.selector": Case(None, {"devices": [{"cycles_per_sample": 1e6}, {}], "devices.0.availability": AWAY}),
    "ServerSpec.over_selection": Case(1.5), "ServerSpec.idle": Case(None, {"server.aggregation": "1 s", "devices.0.sleep_power": "1 mW"}),
    "FedcsSpec.deadline": Case("0.5 s"), "OortSpec.epsilon": Case(0.2), "OortSpec.epsilon_decay": Case(0.5), "OortSpec.epsilon_min": Case(1.0, {"server.oort.epsilon": 0.0}),
    **{f"OortSpec.{name}": Case(value, {"stop.rounds": 16}) for name, value in {"cut_off": 0.01, "clip": 0.01, "alpha": 0.0, "pace": 1.0}.items()},
    "OortSpec.pace_step": Case(1.0, {"stop.rounds": 16, "server.oort.window": 1}), "OortSpec.window": Case(1, {"stop.rounds": 16, "server.oort.pace_step": 1.0}),
    # device to device
    "D2dSpec.topology": Case("complete"), "D2dSpec.snr": Case(["3 dB", "7 dB"]), "D2dSpec.bandwidth": Case("50 kHz"), "D2dSpec.sending": Case(), "D2dSpec.duplex": Case(),
    "D2dSpec.edge_loss": Case(None, LOSSY), "ErdosRenyi.probability": Case(1.0), "WithinDistance.within": Case(1000.0),
    # data, partition, model, training
    "MnistSpec.name": Case("kmnist", slow=True), "MnistSpec.standardise": Case(True, slow=True), "SyntheticSpec.beta": Case(1.0),
    "NpzSpec.path": Case("data b", {"data": {"name": "npz", "path": "data a"}}),
    "ZipfDirichletSpec.alpha": Case(5.0), "ZipfDirichletSpec.sigma": Case(1.0), "ShardsSpec.shards": Case(3),
    "FileSpec.path": Case("owners b", {"partition": {"name": "file", "path": "owners a"}}),
    "MlpSpec.hidden": Case([8, 8]), "ResNet18LastSpec.size": Case(32, slow=True),
    "ModuleSpec.module": Case("learning_modules:Plain"), "ModuleSpec.arguments": Case({"width": 9}),
    "ModuleSpec.folder": Case("modules b", {"model": {"name": "module", "module": "brought:Model", "folder": "modules a"}}),
    "TrainSpec.batch": Case(8), "TrainSpec.dtype": Case(), "TrainSpec.replacement": Case(True), "CompressSpec.up": Case({"name": "quantise"}), "CompressSpec.down": Case({"name": "quantise"}),
    "Quantise.bits": Case(), "Dithering.levels": Case(3), "RandK.share": Case(0.3), "TopK.share": Case(0.3),
    "TrainSpec.device": Case("cuda", refused="no CUDA device"), "TrainSpec.gradients": Case("vmap", {"model": {"name": "mlp"}}),
    # stop
    "StopSpec.rounds": Case(3), "StopSpec.target": Case({"accuracy": 0.01}), "StopSpec.at_target": Case(False, {"stop.target": {"accuracy": 0.01}}),
    "StopSpec.energy": Case(1e-6), "StopSpec.time": Case(1e-6), "Target.metric": Case(), "Target.accuracy": Case(0.01), "Target.hold": Case(3, {"stop.target.accuracy": 0.01}),
    "Target.window": Case(3, {"stop.target": {"accuracy": 0.13, "metric": "average"}}),
    # policies
    **{f"{kind.__name__}.{name}": Case(value) for kind in POLICIES for name, value in {"label": "mine", "tau": 3, "m": 2}.items() if name != "m" or not kind.decentralised},
    **{f"{kind.__name__}.m": Case(2, refused="policies") for kind in POLICIES if kind.decentralised},
    **{f"{kind.__name__}.tau_min": Case(1) for kind in POLICIES if "tau_min" in kind.model_fields},
    **{f"{kind}.eta": Case(0.01) for kind in ("DSGD", "DRDSGD", "FedAvg", "LocalSGD", "FedProx", "FedDyn", "DRFA", "DRDM", "LambdaDRDM", "FedAsync", "FedBuff", "FedNova", "QFedAvg", "QFedSGD", *SERVERS)},
    **{f"{kind}.mu": Case(1.0) for kind in ("DRDSGD", "FedProx", "FedDyn", "DRDM", "LambdaDRDM")},
    **{f"{kind}.eta_l": Case(0.01) for kind in ("SCAFFOLD", "SCAFFPD")},
    **{f"{kind}.gamma": Case(0.1) for kind in ("DRFA", "DRDM", "LambdaDRDM")},
    **{f"{kind}.floor": Case(0.5, STEEP) for kind in ("DRFA", "DRDM", "LambdaDRDM")},
    **{f"{kind}.eta_g": Case(0.5) for kind in ("SCAFFOLD", "SCAFFPD", "FedBuff", *SERVERS)},
    **dict.fromkeys(("FedAvg.weights", "FedProx.weights", "FedProx.sampling", "FedDyn.sampling", "FedDyn.eval_model", "SCAFFOLD.option", "AFL.eval_model",
                     "DRFA.scheme", "DRFA.start_lambda", "DRFA.dual_loss", "DRFA.eval_model", "DRDM.scheme", "DRDM.dual_loss",
                     "LambdaDRDM.dual_loss", "LambdaDRDM.eval_model", "SCAFFPD.psi", "SCAFFPD.loss", "SCAFFPD.eval_model"), Case()),
    "LocalSGD.m": Case(3, refused="policies"), "LocalSGD.weights": Case("data", refused="policies"), "AFL.tau": Case(2, refused="policies"), "QFedSGD.tau": Case(2, refused="policies"),
    "FedDyn.freeze_g": Case(True), "FedDyn.freeze_c": Case(True), "DRDM.freeze_g": Case(True), "DRDM.freeze_c": Case(True),
    "DRFA.snapshot": Case(None, STEEP), "DRDM.snapshot": Case(None, STEEP), "SCAFFOLD.compact_uplink": Case(True), "SCAFFOLD.freeze_c": Case(True),
    "AFL.eta_w": Case(0.5), "AFL.eta_lambda": Case(0.1), "AFL.floor": Case(0.5, {"policies.0.eta_lambda": 1.0}), "LambdaDRDM.kappa": Case(0.5),
    "SCAFFPD.sigma": Case(0.1), "SCAFFPD.theta": Case(0.5), "SCAFFPD.rho": Case(1.0, {"policies.0.psi": "chi2"}), "SCAFFPD.absent": Case(None, {"policies.0.m": 3}),
    "FedAsync.rho": Case(1.0), "FedAsync.alpha": Case(0.3), "FedAsync.staleness": Case(None, {**STALE, "policies.0.b": 0.5}),
    "FedAsync.a": Case(1.0, STALE), "FedAsync.b": Case(0.5, {**STALE, "policies.0.staleness": "hinge"}),
    "FedBuff.K": Case(2), "FedBuff.a": Case(2.0, {**STALE, "policies.0.K": 2}), "FedBuff.dispatch": Case(None, {"policies.0.K": 2}),
    "Ditto.eta": Case(0.01), "Ditto.lam": Case(0.1), "Ditto.sampling": Case(), "Ditto.eval_model": Case(),
    **{f"ClusteredFL.{name}": Case(value, SPLIT) for name, value in {"eps1": 0.0, "eps2": 1e5, "warmup": 2, "linkage": None, "gamma_max": 1.0}.items()},
    "ClusteredFL.eta": Case(0.01), "ClusteredFL.weights": Case(),
    "FedNova.rho": Case(0.5), "FedNova.mu": Case(1.0), "FedNova.weights": Case(),
    **{f"{kind}.q": Case(5.0) for kind in ("QFedAvg", "QFedSGD")}, **{f"{kind}.sampling": Case() for kind in ("QFedAvg", "QFedSGD")},
    **{f"{kind}.weights": Case() for kind in SERVERS}, "FedAvgM.beta": Case(0.5),
    **{f"{kind}.{name}": Case(value) for kind in SERVERS[1:] for name, value in {"b1": 0.5, "eps": 0.1, "v_0": 0.1}.items()},
    **{f"{kind}.b2": Case(0.5) for kind in SERVERS[2:]},
    **{f"{kind}.{name}": Case(value) for kind in ("SCALLION", "SCAFCOM") for name, value in {"eta_l": 0.01, "eta_g": 0.5, "compress": {"name": "rand_k", "share": 0.2}}.items()},
    "SCALLION.alpha": Case(0.5), "SCAFCOM.beta": Case(0.5),
    **{f"{kind}.{name}": Case(value) for kind in ("IFCA", "IFCASGD") for name, value in {"eta": 0.01, "k": 3, "apart": 0.1}.items()},
    "IFCASGD.tau": Case(2, refused="policies"),
    **{f"FedRobust.{name}": Case(value) for name, value in {"eta": 0.01, "affine": None, "eta_delta": 0.1, "eta_lambda": 0.01, "lambda_0": 0.2, "lambda_1": 1.0}.items()},
    "AdaptiveTau.adapt": Case({"budget": "10 s", "phi": 1.0}), "AdaptSpec.budget": Case("1 s"), "AdaptSpec.phi": Case(1.0),
    "Decay.start": Case(0.01), "Decay.power": Case(1.0, {"policies.0.eta.after": 1}), "Decay.after": Case(1),
}  # fmt: skip


def words_of(annotation: Any) -> list[Any]:
    """What a field may say, if it chooses among words (or numbers, or nothing)."""
    words: list[Any] = []
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is Literal:
            words += [word for word in typing.get_args(part) if word not in words]
    return words


def is_block(annotation: Any) -> bool:
    """A block of one class: its fields are walked. (A tag that only says which class this is has one word.)"""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def fields() -> list[tuple[type[BaseModel], str]]:
    """Every option: what is no mere block, no tag, no text."""
    return [
        (spec, name)
        for spec in all_specs()
        for name, field in spec.model_fields.items()
        if not is_block(field.annotation)
        and f"{spec.__name__}.{name}" not in WORDS
        and not (name == "name" and len(words_of(field.annotation)) == 1)
    ]


def cases() -> list[Any]:
    """One for each option and each other value; an option without an entry is a case that fails."""
    found = []
    for spec, name in fields():
        key = f"{spec.__name__}.{name}"
        case = CASES.get(key)
        if case is None:
            found.append(pytest.param(key, None, None, id=key))
            continue
        before = spec.model_fields[name].get_default(call_default_factory=True)
        given = {**GIVEN.get(spec.__name__, {}), **case.given}
        others = [case.value] if case.value is not None else [word for word in words_of(spec.model_fields[name].annotation) if word != before]
        if case.value is None and f"{PLACES[spec.__name__]}.{name}" in given:
            others = [word for word in others if word != given[f"{PLACES[spec.__name__]}.{name}"]]
        marks = [pytest.mark.slow] if case.slow else []
        assert others, f"{key} has no other value to try"
        found += [pytest.param(key, other, given, id=f"{key}={str(other)[:30]}", marks=marks) for other in others]
    return found


BROUGHT = """
from torch import nn
class Model(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, {width}), nn.Tanh(), nn.Linear({width}, 10))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, str]:
    """Files that a scenario may name."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    paths = {}
    for which, level_db in (("a", 5), ("b", 12)):
        lines = ["time_s,client_0,client_1", *(f"{t},{level_db + t % 3},{level_db - t % 2}" for t in range(20))]
        (folder / f"trace_{which}.csv").write_text("\n".join(lines))
        paths[f"trace {which}"] = str(folder / f"trace_{which}.csv")
        hours = [f"{client},{0.1 * client:.1f},{1.5 if which == 'b' else 9 + client}" for client in range(6)]
        (folder / f"hours_{which}.csv").write_text("\n".join(["client,start_s,end_s", *hours]))
        paths[f"hours {which}"] = str(folder / f"hours_{which}.csv")
        x, y = rng.normal(size=(120, 4)).astype(np.float32), rng.integers(0, 3, 120)
        np.savez(folder / f"data_{which}.npz", x_train=x, y_train=y, x_test=x[:60], y_test=y[:60])
        paths[f"data {which}"] = str(folder / f"data_{which}.npz")
        order = rng.permutation(300).tolist()
        owners = {half: [order[i::6] for i in range(6)] for half in ("train", "test")}
        (folder / f"owners_{which}.json").write_text(json.dumps(owners))
        width = {"a": 3, "b": 5}[which]
        (folder / f"modules_{which}").mkdir()
        (folder / f"modules_{which}/brought.py").write_text(BROUGHT.format(width=width))
        paths[f"modules {which}"] = str(folder / f"modules_{which}")
        paths[f"owners {which}"] = str(folder / f"owners_{which}.json")
    return paths


def filled(value: Any, made: dict[str, str]) -> Any:
    """With the names of files in place of their nicknames; a trace is a block with a file."""
    if isinstance(value, dict):
        return {key: filled({"file": inner} if key == "trace" and inner in made else inner, made) for key, inner in value.items()}
    return made.get(value, value) if isinstance(value, str) else value


def scenario(given: dict[str, Any], made: dict[str, str]) -> Scenario:
    data = {**copy.deepcopy(BASE), "devices": [{"cycles_per_sample": 1.083e7}]}
    for key, value in given.items():
        assign(data, key, copy.deepcopy(filled(value, made)), "test")
    return Scenario.model_validate(data)


def lived(it: Scenario) -> dict[str, Any]:
    """Everything that a run of the first policy leaves."""
    seed, rows = it.seeds[0], Rows()
    learner = build(it.data, it.partition, it.model, it.train, it.clients, seed, 1)
    training = Training(it.policies[0], learner, seed, it.evaluate_every)
    world = World(it.world, it.clients, seed, learner.flops_per_sample, learner.samples)
    reason = drive(training, world, rows, Stop(it.stop), it.clients, seed)
    trace = [trace_to_json(entry) for entry in rows.trace]
    return {"rounds": rows.rounds, "legs": rows.legs, "trace": trace, "reason": reason, "labels": it.labels, "gradients": (type(learner._gradients).__name__, learner._gradients.chunk)}


_seen: dict[str, dict[str, Any]] = {}


@pytest.mark.parametrize(("key", "other", "given"), cases())
def test_every_option_changes_something_or_is_refused(key, other, given, made, monkeypatch):
    assert given is not None, f"{key} is an option that no test knows: add to CASES a scenario in which it matters, and another value"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    spec, name = key.split(".")
    place = f"{PLACES[spec]}.{name}".lstrip(".")
    value = {"file": other} if name == "trace" else other
    before = scenario(given, made)
    if CASES[key].refused:
        with pytest.raises((ValidationError, ScenarioError), match=CASES[key].refused):
            lived(scenario({**given, place: value}, made))
        return
    after = scenario({**given, place: value}, made)
    digest = before.model_dump_json()
    if digest not in _seen:
        _seen[digest] = lived(before)
    one, two = _seen[digest], lived(after)
    assert one != two, f"{key}: {other} changes nothing in {given}"
    learns = ("policies", "data", "partition", "model", "train", "stop", "clients", "seeds", "evaluate_every")
    if not place.startswith((*learns, "d2d.topology")) and not influences(before.world) and not influences(after.world):
        assert one["trace"] == two["trace"], f"{key} cannot change what is learnt, and did"


def test_the_table_knows_no_option_that_is_gone():
    assert set(CASES) <= {f"{spec.__name__}.{name}" for spec, name in fields()}


def test_every_block_has_a_place():
    assert {spec.__name__ for spec in all_specs()} <= set(PLACES)
