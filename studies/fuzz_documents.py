"""Random scenarios that are valid by their types: every key of every spec, with tame and with hostile numbers.

`document(seed)` walks the specs, so a new key is in it by itself. Most values are tame, so that most scenarios load
and really run; a few are bounds, zeros, tiny or huge. Left out: data and backbones that must be downloaded (`mnist` and
its siblings, `resnet18_last`), and the `tune` block, which is a command of its own.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np

from wflsim.errors import ScenarioError
from wflsim.scenario import load
from wflsim.scenario.allowed import Place, alternatives, is_spec, items, names_of, of_field
from wflsim.scenario.schema import Scenario
from wflsim.spec import Means
from wflsim.world.fleet.spec import EITHER

LEFT_OUT = ("mnist", "fashion_mnist", "kmnist", "resnet18_last")
ATTEMPTS = 40
"""Documents drawn for one seed until one of them loads."""
HOSTILE = (0.0, 5e-324, 1e-300, 1e-30, 1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9, 1e12, 1e18, 1e29)
HOSTILE_DB = ("-2000 dB", "-200 dB", "-30 dB", "0 dB", "80 dB", "290 dB", "0 linear", "1e-300 linear", "1e29 linear")
TAME = {"Hz": 1e6, "s": 1.0, "W": 0.1, "J": 20.0, "m": 100.0, "m/s": 1.0, "bit": 1e4, "bit/s": 1e6, "FLOP/s": 1e9}
LARGEST = {"clients": 8, "rounds": 2, "tau": 4, "attempts": 64, "buffer": 4, "K": 4, "evaluate_every": 2, "hold": 2}
"""What would only take long, without any surprise: kept small."""
NIGHT = "{0} 00:00:00\tscreen_off\n{0} 00:00:01\tbattery_charged_on\n{0} 00:00:02\twifi\n{0} 06:00:00\tscreen_on\n"
FILES = {
    "walk.csv": "time_s,client_0,client_1\n0,10,3\n1,-200,4\n2,5,30\n",
    "hours-csv": "client,start_s,end_s\n" + "".join(f"{n},{0.1 * n},{n + 1}\n{n},{n + 2},1e6\n" for n in range(8)),
    "hours-flash": json.dumps({n: {"messages": NIGHT.format(f"2020-01-0{n + 1}")} for n in range(8)}),
    "hours-fedscale": json.dumps({n: {"active": [n, 9], "inactive": [n + 1], "finish_time": 1e6} for n in range(8)}),
}
"""By name, a channel trace, and the hours of eight devices in each layout."""
MODULE = """import torch


class Net(torch.nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.a, self.b = torch.nn.LazyLinear(width), torch.nn.Linear(width, 10)
        self.a(torch.zeros(1, 64))

    def forward(self, x):
        return self.b(torch.relu(self.a(x.flatten(1))))
"""


def leave_files(folder: Path) -> None:
    """The files that documents name: FILES, a small data set, a partition of the digits, a module."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "fuzz_net.py").write_text(MODULE)
    rng = np.random.default_rng(0)
    halves = {"train": 90, "test": 40}
    arrays: dict[str, Any] = {f"x_{half}": rng.random((count, 8, 8), np.float32) for half, count in halves.items()}
    labels: dict[str, Any] = {f"y_{half}": np.arange(count) % 10 for half, count in halves.items()}
    np.savez(folder / "small.npz", **arrays, **labels)
    owned = {"train": [list(range(i, 90, 3)) for i in range(3)], "test": [list(range(i, 40, 3)) for i in range(3)]}
    (folder / "owned.json").write_text(json.dumps(owned))


def document(seed: int, folder: Path) -> dict[str, Any]:
    """The scenario of this number, in a folder with the files that it may name: the first draw that loads."""
    rng = random.Random(seed)
    found: dict[str, Any] = {}
    for _ in range(ATTEMPTS):
        found = Draw(rng, folder).scenario()
        try:
            load(found)
        except ScenarioError:
            continue
        break
    return found


class Draw:
    """One draw of a whole document."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng = rng
        self.folder = folder
        self.hostility = rng.choice((0.0, 0.03, 0.1, 0.3))
        self.fullness = rng.choice((0.1, 0.3, 0.6))
        """Probability that an optional key is written."""

    def scenario(self) -> dict[str, Any]:
        data = self.block(Scenario)
        data["seeds"] = [self.rng.choice((0, 1, 2**31 - 1))]
        data.pop("tune", None)
        data["stop"]["rounds"] = self.rng.choice((1, 2))
        data["name"] = self.rng.choice(("fuzz", "é <b>[red]/..", "x" * 80))
        self.fit_data(data)
        self.fit_devices(data.get("devices") or [])
        for number, policy in enumerate(data["policies"]):
            policy["label"] = f"p{number}"
            if policy.get("m") is not None:
                policy["m"] = min(policy["m"], data["clients"])
        sources = [key for key in ("snr", "path_loss", "trace") if data.get("radio", {}).get(key) is not None]
        kept = self.rng.choice(sources) if sources else None
        for key in sources:
            if key != kept:
                del data["radio"][key]
        if kept != "path_loss" and self.rng.random() < 0.95:
            data.get("radio", {}).pop("power_control", None)
        if data.pop("sweep", None) and self.rng.random() < 0.3:
            folder = {"folder": str(self.folder)} if self.rng.random() < 0.5 else {}
            width = self.number(Place(float), "bandwidth", 1e6) or 1.0
            data["sweep"] = folder | {"grid": {"radio.bandwidth": [width, "1 MHz"]}}
        return data

    def fit_data(self, data: dict[str, Any]) -> None:
        """Let data, partition and model belong together, but for one document in twenty."""
        small = {"name": "npz", "path": str(self.folder / "small.npz")}
        if data["data"]["name"] == "npz":
            data["data"] = small
        if self.rng.random() < 0.05:
            return
        if data["partition"].get("name") == "file":
            data |= {"clients": 3, "data": small}
        if (data["data"]["name"] == "synthetic") != (data["partition"].get("name") == "natural"):
            data |= {"data": {"name": "synthetic"}, "partition": {"name": "natural"}}
        if data["data"]["name"] == "synthetic" and data["model"]["name"] in ("cnn", "module"):
            data["model"] = {"name": "linear"}

    def fit_devices(self, devices: list[dict[str, Any]]) -> None:
        """Let no kind of device contradict itself, and name hours in the layout it says, but for one in twenty."""
        for device in devices:
            if self.rng.random() < 0.05:
                continue
            for pair in EITHER:
                if all(device.get(key) is not None for key in pair):
                    del device[self.rng.choice(pair)]
            if device.get("max_power") is None:
                device.pop("amplifier_exponent", None)
            hours = device.get("availability") or {}
            if hours.get("name") == "file":
                hours["file"] = str(self.folder / f"hours-{hours.get('layout', 'csv')}")

    def block(self, spec: type[Any]) -> dict[str, Any]:
        """A block of this spec."""
        names = names_of(spec)
        data: dict[str, Any] = {}
        for key, field in spec.model_fields.items():
            if names and key == "name":
                data[key] = self.rng.choice([name for name in names if name not in LEFT_OUT] or list(names))
            elif field.is_required() or self.rng.random() < self.fullness:
                default = None if field.is_required() else field.get_default(call_default_factory=True)
                data[key] = self.value(of_field(field), key, default)
        return data

    def value(self, place: Place, key: str, default: Any = None) -> Any:
        """Anything that may stand at this key."""
        choices = [one for one in alternatives(place) if not _left_out(one)]
        if len(choices) > 1 and self.rng.random() < 0.8:
            choices = [one for one in choices if one.annotation is not NoneType]
        chosen = self.rng.choice(choices)
        annotation, metadata = chosen
        inner = items(chosen)
        if annotation in (None, NoneType):
            return None
        if is_spec(annotation):
            return self.block(annotation)
        if get_origin(annotation) is Literal:
            return self.rng.choice(get_args(annotation))
        if inner is not None:
            return self.several(chosen, inner, key)
        if annotation is bool:
            return self.rng.random() < 0.5
        if annotation is str:
            return self.text(key)
        return self.number(Place(annotation, metadata), key, default)

    def several(self, place: Place, inner: Place, key: str) -> Any:
        """A list, a tuple or a table."""
        special: dict[str, Callable[[], Any]] = {
            "windows": self.windows,
            "arguments": lambda: {"width": self.rng.choice((1, 3))},
            "policies": lambda: [self.value(inner, key) for _ in range(self.rng.choice((1, 1, 2)))],
            "hidden": lambda: [self.number(inner, key, 8) for _ in range(self.rng.choice((0, 1, 1, 2)))],
        }
        if key in special:
            return special[key]()
        if get_origin(place.annotation) is dict:
            return {}
        return [self.value(inner, key) for _ in range(self.rng.choice((1, 1, 2, 3)))]

    def windows(self) -> list[list[float]]:
        edges = sorted({self.rng.choice((0.0, 1e-9, 0.01, 0.1, 1.0, 10.0, 1e6, 1e25)) for _ in range(6)})
        return [edges[i : i + 2] for i in range(0, len(edges) - 1, 2)] or [[0.0, 1.0]]

    def text(self, key: str) -> str:
        """Names of files and modules, and free text."""
        known = {"path": "owned.json", "file": "walk.csv"}
        if key == "module":
            return "fuzz_net:Net"
        return str(self.folder / known[key]) if key in known else self.rng.choice(("x", "ünï", "a b"))

    def number(self, place: Place, key: str, default: Any) -> Any:
        """A number within the bounds of its type, written as the scenario wants it."""
        annotation, metadata = place
        unit = next((item.unit for item in metadata if isinstance(item, Means)), "")
        hostile = self.rng.random() < self.hostility
        if unit == "linear":
            return self.rng.choice(HOSTILE_DB) if hostile else f"{self.rng.uniform(-10, 30):.1f} dB"
        low, high = _bounds(metadata)
        if annotation is int:
            most = min(high, LARGEST.get(key, 5 if not hostile else 10**9))
            least = math.ceil(low)
            if hostile:
                return int(self.rng.choice((least, most)))
            return self.rng.randint(least, max(least, int(min(most, 5))))
        if hostile:
            inside = [number for number in (*HOSTILE, low, high) if low <= number <= min(high, 1e29)]
            return self.rng.choice(inside or [low])
        usual = default if isinstance(default, int | float) and default else TAME.get(unit, 0.5)
        drawn = usual * math.exp(self.rng.uniform(-2, 2))
        return min(max(drawn, low), high)


def _left_out(place: Place) -> bool:
    names = names_of(place.annotation) if is_spec(place.annotation) else ()
    return bool(names) and all(name in LEFT_OUT for name in names)


def _bounds(metadata: tuple[Any, ...]) -> tuple[float, float]:
    """The smallest and the largest number that the annotation lets through."""
    def limits(name: str) -> list[float]:
        return [limit for item in metadata if (limit := getattr(item, name, None)) is not None]

    low = max([-1e9, *limits("ge"), *(math.nextafter(limit, math.inf) for limit in limits("gt"))])
    high = min([math.inf, *limits("le"), *(math.nextafter(limit, -math.inf) for limit in limits("lt"))])
    return low, high
