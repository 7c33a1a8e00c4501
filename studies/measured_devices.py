"""Measured workloads beside what the laws of devices say about them, from the table of check values.

    python -m studies.measured_devices

writes reports/world/measured.md from reports/world/check_values.csv, whose rows `measured` hold what others measured
and published, and whose other rows are the check values of the laws.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from wflsim.units import parse_quantity
from wflsim.world.fleet.compute import Processor
from wflsim.world.fleet.modem import Modem
from wflsim.world.fleet.spec import DeviceSpec
from wflsim.world.fleet.traits import modem_of, processor_of

WORLD = Path(__file__).resolve().parents[1] / "reports" / "world"
UNITS = {
    "step_s": "s/step", "step_ms": "ms/step", "sample_ms": "ms/image", "speed_gflops": "GFLOP/s", "step_w": "W",
    "sending_w": "W",
}  # fmt: skip
"""Unit of each measured quantity, as it is printed."""
LONG_GFLOP = 1e6
"""GFLOPs of a step whose overhead is nothing beside its work."""
HEAD = """# Measured workloads beside the model

Made by `python -m studies.measured_devices` from [check_values.csv](check_values.csv). The ratio is model / measured,
from the greatest to the least measured value where a range was published. The first three rows are held within 6 % by a
test; the others are shown as they come out. A model has one speed per processor, and what training attains varies
30-fold with the layers: ViT-B and MobileNetV3-S on the same Raspberry Pi 5 are the two ends. Give `devices.speed` what
you measured on your own model. A phone of 2014 and a Cortex-M0+ were measured, too, and have no profile.

| workload | device | measured | model | ratio | source |
|---|---|---|---|---|---|
"""


def rows() -> list[dict[str, str]]:
    """All rows of the committed table, measured ones and check values."""
    return list(csv.DictReader((WORLD / "check_values.csv").read_text(encoding="utf-8").splitlines()))


def processor(name: str, gflop: float, **keys: Any) -> Processor:
    """A named processor, for steps of one sample that takes so many GFLOPs to train on."""
    return processor_of(DeviceSpec.model_validate({"compute": name, **keys}), gflop * 1e9 / 3)


def modem(name: str) -> Modem:
    """A named modem."""
    return modem_of(DeviceSpec.model_validate({"modem": name}))


def step(name: str, setting: str, quantity: str) -> float:
    """Seconds, milliseconds, watts or joules (by the quantity's ending) of a step of the given work, such as `346.57
    MFLOP at 0.75 GHz`."""
    work, _, clock = setting.partition(" at ")
    # A processor refuses a model of no FLOPs, and one FLOP takes no time that could be printed.
    gflop = max(float(work.split()[0]) / 1e3, 1e-9)
    made = processor(name, gflop, **({"frequency": clock} if clock else {}))
    took_s = made.step_s(1)
    by_unit = {"s": took_s, "ms": 1e3 * took_s, "w": made.active_w, "j": made.active_w * took_s}
    return by_unit[quantity.removeprefix("step_")]


def modelled(row: dict[str, str]) -> float:
    """What the program's laws say about a measured row, in the row's unit."""
    name, quantity, setting = row["part"], row["quantity"], row["setting"]
    if quantity == "speed_gflops":
        return LONG_GFLOP / processor(name, LONG_GFLOP).step_s(1)
    if quantity == "sending_w":
        return modem(name).sending_w(parse_quantity(setting, "W"))
    if quantity == "sample_ms":
        work, _, samples = setting.partition(" in ")
        return step(name, work, "step_ms") / float(samples)
    return step(name, setting, quantity)


def ratios(row: dict[str, str]) -> list[float]:
    """Model over measurement; two numbers, increasing, where a range was measured."""
    measured = sorted({float(row[key]) for key in ("most", "printed") if row[key]}, reverse=True)
    return [modelled(row) / value for value in measured]


def page() -> str:
    """The text of reports/world/measured.md."""
    lines = []
    for row in rows():
        if row["check"] != "measured":
            continue
        unit = UNITS[row["quantity"]]
        measured = f"{row['printed']} to {row['most']} {unit}" if row["most"] else f"{row['printed']} {unit}"
        model, ratio = "no profile", ""
        if row["part"]:
            model, ratio = f"{modelled(row):.4g} {unit}", " to ".join(f"{value:.2f}" for value in ratios(row))
        device = f"`{row['part']}`" if row["part"] else "-"
        lines.append(f"| {row['workload']} | {device} | {measured} | {model} | {ratio} | {row['source']} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    (WORLD / "measured.md").write_text(page(), encoding="utf-8")
    print(page())


if __name__ == "__main__":
    main()
