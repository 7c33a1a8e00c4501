"""Every limit of every option from both sides: the last value that is allowed, and the first that is not.

The specs are walked, so an option with a limit that the table lacks fails; the table says what the limits are meant to be.
"""

from __future__ import annotations

import typing
from typing import Any

import annotated_types
import pytest
from pydantic import BaseModel, ValidationError
from scenario_specs import all_specs

BOUNDS = (annotated_types.Ge, annotated_types.Gt, annotated_types.Le, annotated_types.Lt)
Limits = tuple[Any, Any, Any, Any]
"""Refused below, the least and the largest that are allowed, refused above; None: no limit on that side."""

COUNT: Limits = (0, 1, 1_000_000, 1_000_001)
FROM_ONE: Limits = (0, 1, 10**9, None)
STEP: Limits = (0.0, 1e-12, 1000.0, 1000.001)
COEFFICIENT: Limits = (-1e-12, 0.0, 1e6, 1.000001e6)
POSITIVE: Limits = (0, 1e-12, 1e29, None)
NOT_NEGATIVE: Limits = (-1e-12, 0, 1e29, None)
SHARE: Limits = (-1e-12, 0, 1, 1.000001)
POSITIVE_SHARE: Limits = (0, 1e-12, 1, 1.000001)
HERTZ: Limits = (0.000999, 0.001, 1e29, None)
SPEED: Limits = (-1e-12, 0, 30_000, 30_001)
MEASURABLE_SHARE: Limits = (0.999e-9, 1e-9, 1, 1.000001)
NOISE: Limits = ("-60.001 dB", "-60 dB", "100 dB", "100.001 dB")
RATIO: Limits = ("-1e-12 linear", "0 linear", "1e29 linear", None)
POLICY: dict[str, Limits] = {
    "m": COUNT, "tau": COUNT, "K": COUNT, "eta": STEP, "eta_l": STEP, "eta_g": STEP, "eta_w": STEP, "kappa": STEP, "mu": COEFFICIENT,
    "gamma": COEFFICIENT, "floor": (-1e-12, 0, 0.999999, 1), "eta_lambda": COEFFICIENT, "sigma": COEFFICIENT, "theta": COEFFICIENT, "rho": COEFFICIENT,
    "lam": COEFFICIENT,
    "eps1": COEFFICIENT, "eps2": COEFFICIENT, "warmup": (-1, 0, 1_000_000, 1_000_001), "gamma_max": SHARE,
    "a": COEFFICIENT, "b": COEFFICIENT, "tau_min": COUNT, "q": COEFFICIENT,
    "beta": (-1e-12, 0, 0.999999, 1), "b1": (-1e-12, 0, 0.999999, 1), "b2": SHARE, "eps": STEP, "v_0": COEFFICIENT,
    "k": (0, 1, 1000, 1001), "apart": COEFFICIENT, "eta_delta": COEFFICIENT, "lambda_0": COEFFICIENT, "lambda_1": COEFFICIENT,
}  # fmt: skip
POSITIVE_MU: Limits = (0.0, 1e-12, 1e6, 1.000001e6)
TABLE: dict[str, dict[str, Limits]] = {
    "Scenario": {"clients": COUNT, "seeds": ([-1], [0], [2**31 - 1], [2**31]), "evaluate_every": (0, 1, 100_000, 100_001)},
    "RadioSpec": {"snr": RATIO, "noise_figure": NOISE, "interference_margin": NOISE, "interference": NOT_NEGATIVE, "bandwidth": HERTZ, "carrier": (999, 1e3, 1e13, 1.0001e13),
                  "power": NOT_NEGATIVE, "patience": NOT_NEGATIVE},
    "DownlinkSpec": {"snr": RATIO, "noise_figure": NOISE, "bandwidth": HERTZ, "power": NOT_NEGATIVE},
    "LossSpec": {"probability": (-1e-12, 0, 0.999999, 1), "outage_threshold": RATIO, "waterfall": RATIO, "attempts": (0, 1, 64, 65), "block": (0.999, 1, 1e29, None)},
    "PowerControlSpec": {"target": NOT_NEGATIVE, "share": SHARE},
    "LogDistance": {"at_1km_db": (-1e-9, 0, 300, 300.001), "exponent": (0, 1e-12, 10, 10.001), "sigma_db": (-1e-12, 0, 30, 30.001), "correlation": (0.0999, 0.1, 1e29, None)},
    "Uma": {"base_height": NOT_NEGATIVE, "client_height": (1, 1.000001, 12.999999, 13)},
    "Umi": {"base_height": NOT_NEGATIVE, "client_height": (1, 1.000001, 12.999999, 13)},
    "Inh": {"base_height": NOT_NEGATIVE, "client_height": NOT_NEGATIVE},
    "Rayleigh": {"speed": SPEED, "block": (0.999e-6, 1e-6, 1e29, None)},
    "Rician": {"speed": SPEED, "block": (0.999e-6, 1e-6, 1e29, None), "k": RATIO},
    "Gap": {"gap": ("-60.001 dB", "-60 dB", "60 dB", "60.001 dB")}, "Fixed": {"efficiency_bps_per_hz": (0.999e-6, 1e-6, 20, 20.001)},
    "CellSpec": {"radius": (0, 1e-12, 1e9, 1.0001e9), "min_distance": (0.00999, 0.01, 1e29, None), "distances": ([-1e-12], [0], [1e29], None), "speed": SPEED},
    "DeviceSpec": {
        "share": (0.999e-6, 1e-6, 1e6, 1.000001e6), "cycles_per_sample": (-1e-12, 0, 1e15, 1.000001e15), "frequency": HERTZ, "max_frequency": HERTZ, "kappa": SHARE,
        "speed": (0.999, 1, 1e29, None), "memory_share": SHARE, "clock_exponent": (-1e-12, 0, 4, 4.001), "amplifier_efficiency": MEASURABLE_SHARE,
        "amplifier_exponent": SHARE, "battery": POSITIVE, "spread": (-1e-12, 0, 3, 3.001), "dropout": SHARE,
        **dict.fromkeys(("compute_idle_power", "compute_active_power", "receive_power", "receive_energy_per_bit", "listen_power", "sleep_power",
                         "circuit_power", "radiated_power", "max_power", "transmit_energy_per_bit", "wake", "wake_power", "tail", "tail_power",
                         "step_overhead", "call_overhead"), NOT_NEGATIVE),
    },
    "Diurnal": {"start": (-1e-9, 0, 86399, 86400), "length": (0.000999, 0.001, 86399, 86400), "spread": (-1e-9, 0, 10800, 10801)},
    "Churn": {"join": NOT_NEGATIVE, "stay": (0.000999, 0.001, 1e29, None), "away": (0.000999, 0.001, 1e29, None), "leave": SHARE},
    "OutagesSpec": {"groups": COUNT, "every": (0.000999, 0.001, 1e29, None), "length": (0.000999, 0.001, 1e29, None)},
    "Periodic": {"period": (0.000999, 0.001, 1e29, None), "open": (0.000999, 0.001, 1e29, None)}, "Windows": {"windows": ([[-1e-12, 1]], [[0, 1]], [[0, 1e29]], None)},
    "ServerSpec": {"deadline": POSITIVE, "compute_budget": POSITIVE, "first": FROM_ONE, "quorum": FROM_ONE, "aggregation": NOT_NEGATIVE, "over_selection": (0.999, 1, 100, 100.001)},
    "FedcsSpec": {"deadline": POSITIVE},
    "OortSpec": {"epsilon": SHARE, "epsilon_decay": POSITIVE_SHARE, "epsilon_min": SHARE, "cut_off": POSITIVE_SHARE, "clip": POSITIVE_SHARE,
                 "alpha": (-1e-12, 0, 10, 10.001), "pace": POSITIVE_SHARE, "pace_step": SHARE, "window": (0, 1, 100_000, 100_001)},
    "D2dSpec": {"snr": RATIO, "bandwidth": HERTZ}, "ErdosRenyi": {"probability": POSITIVE_SHARE}, "WithinDistance": {"within": POSITIVE},
    "Dithering": {"levels": (0, 1, 2**20, 2**20 + 1)}, "RandK": {"share": POSITIVE_SHARE}, "TopK": {"share": POSITIVE_SHARE},
    "SyntheticSpec": {"alpha": NOT_NEGATIVE, "beta": NOT_NEGATIVE}, "ZipfDirichletSpec": {"alpha": NOT_NEGATIVE, "sigma": NOT_NEGATIVE},
    "ShardsSpec": {"shards": COUNT}, "MlpSpec": {"hidden": ([0], [1], [10**9], None)}, "ResNet18LastSpec": {"size": (0, 1, 512, 513)},
    "TrainSpec": {"batch": FROM_ONE}, "StopSpec": {"rounds": COUNT, "energy": NOT_NEGATIVE, "time": NOT_NEGATIVE},
    "Target": {"accuracy": POSITIVE_SHARE, "hold": (0, 1, 1000, 1001), "window": (0, 1, 10_000, 10_001)}, "Decay": {"start": STEP, "power": SHARE, "after": COUNT},
    "AdaptSpec": {"budget": POSITIVE, "phi": (0, 1e-12, 1e6, 1.001e6)},
    "FedNova": {"rho": (-1e-12, 0, 0.999999, 1)},
    "FedDyn": {"mu": POSITIVE_MU}, "LambdaDRDM": {"mu": POSITIVE_MU}, "FedAsync": {"alpha": POSITIVE_SHARE},
    "DRDSGD": {"mu": POSITIVE_MU}, "SCALLION": {"alpha": POSITIVE_SHARE}, "SCAFCOM": {"beta": POSITIVE_SHARE},
}  # fmt: skip


def has_limits(annotation: Any, metadata: Any = ()) -> bool:
    """Whether pydantic knows a bound anywhere in this annotation."""
    found = [*metadata, *getattr(annotation, "__metadata__", ())]
    if any(isinstance(mark, BOUNDS) or any(isinstance(inner, BOUNDS) for inner in getattr(mark, "metadata", ())) for mark in found):
        return True
    parts = [part for part in typing.get_args(annotation) if not (isinstance(part, type) and issubclass(part, BaseModel))]
    return any(has_limits(part) for part in parts)


LIMITED = [
    (spec, name) for spec in all_specs() for name, field in spec.model_fields.items() if has_limits(field.annotation, field.metadata)
]  # fmt: skip


def is_refused(spec: type[BaseModel], name: str, value: Any) -> bool:
    try:
        spec.model_validate({name: value})
    except ValidationError as error:
        return any(finding["loc"][:1] == (name,) for finding in error.errors())
    return False


@pytest.mark.parametrize(("spec", "name"), LIMITED, ids=lambda part: getattr(part, "__name__", part))
def test_a_limit_from_both_sides(spec, name):
    limits = TABLE.get(spec.__name__, {}).get(name) or (POLICY.get(name) if hasattr(spec, "about") else None)
    assert limits is not None, f"{spec.__name__}.{name} has limits that no test knows: add them to TABLE, from both sides"
    below, least, most, above = limits
    assert [is_refused(spec, name, value) for value in (least, most)] == [False, False]
    assert all(is_refused(spec, name, value) for value in (below, above) if value is not None)
