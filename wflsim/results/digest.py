"""Names of results by their causes: equal digests mean equal bytes.

The learning digest covers everything that can change what is learnt and nothing else: not the world, not the stop
rules, not the number of rounds. A run's digest adds the world, the stop rules and the code that carries orders out.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wflsim.door import origin_of
from wflsim.imports import content, sources
from wflsim.learning.specs import ModuleSpec
from wflsim.policies.base import Policy
from wflsim.policies.registry import POLICIES
from wflsim.scenario import Scenario
from wflsim.world.spec import graph_of

PACKAGE = Path(__file__).parents[1]
LEARNING = ("learning", "compress", "exchange.py", "wire.py", "rng.py", "simulation/loop.py", "simulation/training.py")
"""Packages and modules whose code decides what is learnt, beside the policy's own."""
CARRYING = (
    "world", "simulation", "exchange.py", "wire.py", "rng.py", "records.py", "target.py", "analysis/tables.py",
    "analysis/legs.py", "experiments/cached.py", "experiments/keepers.py",
)  # fmt: skip
"""Packages and modules whose code decides what a run costs and when it ends."""
POLICY_PACKAGE = "wflsim.policies"


def learning_key(scenario: Scenario, policy: int, seed: int) -> dict[str, Any]:
    """All causes of the learning of one policy with one seed, as JSON."""
    spec = scenario.policies[policy]
    blocks = {name: getattr(scenario, name).model_dump(mode="json") for name in ("data", "partition", "model", "train")}
    blocks["train"]["device"] = _device(scenario.train.device)
    files = {name: _of_file(path) for name, path in _input_files(blocks)}
    if isinstance(scenario.model, ModuleSpec):
        del blocks["model"]["folder"]  # what the file says is a cause, where it lies is not
    policy_keys = spec.model_dump(mode="json", exclude={"label"})
    if origin_of(spec) is not None:
        policy_keys["name"] = spec.name.rpartition(":")[2]  # likewise
    return {
        **blocks,
        "clients": scenario.clients,
        "seed": seed,
        "policy": policy_keys,
        "evaluate_every": scenario.evaluate_every,
        "versions": {name: version(name) for name in ("torch", "numpy")} | {"machine": platform.machine()},
        "sources": _sources(LEARNING) + _policy_sources(type(spec)),
        "files": files | brought_code(scenario, policy),
        **({"edges": graph_of(scenario.world, scenario.clients, seed)} if spec.decentralised else {}),
    }


def partition_digest(scenario: Scenario, seed: int) -> str:
    """Digest of everything that decides which samples each client has."""
    blocks = {name: getattr(scenario, name).model_dump(mode="json") for name in ("data", "partition")}
    files = {name: _of_file(path) for name, path in _input_files(blocks)}
    return digest({**blocks, "clients": scenario.clients, "seed": seed, "files": files})


def brought_code(scenario: Scenario, policy: int) -> dict[str, str]:
    """Digests of the code that the user brings for one policy: the policy's own and the model's; mostly empty."""
    found = {}
    if isinstance(scenario.model, ModuleSpec) and (place := scenario.model.place()) is not None:
        found[".model.module"] = digest(content(sources(place)))
    if (origin := origin_of(scenario.policies[policy])) is not None:
        found[".policy"] = origin.digest
    return found


def learning_digest(scenario: Scenario, policy: int, seed: int) -> str:
    """Digest of everything that can change the learning: the address of a trace in the store."""
    return digest(learning_key(scenario, policy, seed))


def run_digest(learning: str, scenario: Scenario) -> str:
    """The address of a finished run: what was learnt, in which world, until when."""
    world = scenario.world.model_dump(mode="json")
    files = {name: _of_file(path) for name, path in _input_files(world)}
    stop = scenario.stop.model_dump(mode="json")
    return digest({"learning": learning, "world": world, "stop": stop, "files": files, "sources": _sources(CARRYING)})


def digest(value: Any) -> str:
    """Digest of a value that can be written as JSON."""
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()


@lru_cache
def _device(wanted: str) -> str:
    """The device that trains: what `auto` means on this machine, for which torch is imported only if need be."""
    if wanted != "auto":
        return wanted
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@lru_cache
def _sources(parts: tuple[str, ...]) -> list[str]:
    """Digests of all source files of these packages and modules below wflsim/, in order of name."""
    found: list[Path] = []
    for part in parts:
        path = PACKAGE / part
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []
        if not files:
            raise FileNotFoundError(f"digest.py names {part}, but there is no such source below {PACKAGE}")
        found += files
    return [_of_file(path) for path in found]


@lru_cache
def _policy_sources(policy: type[Policy]) -> list[str]:
    """The policy's module, those it imports from, and the package's helpers: other policies may change freely.

    Of a policy of the user's own: all policies of the package, for it may import any of them.
    """
    if origin_of(policy) is not None:
        return _sources(("policies",))
    found: set[str] = set()
    wanted = [policy.__module__]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        members = [getattr(member, "__module__", None) or "" for member in vars(sys.modules[name]).values()]
        wanted += [module for module in members if module.startswith(POLICY_PACKAGE)]
    registered = {entry.__module__ for entry in POLICIES} | {f"{POLICY_PACKAGE}.registry"}
    package = (PACKAGE / "policies").glob("*.py")
    helpers = [path for path in package if f"{POLICY_PACKAGE}.{path.stem}" not in registered]
    own = [Path(file) for name in found if (file := sys.modules[name].__file__) and not name.endswith(".registry")]
    return [_of_file(path) for path in sorted({*helpers, *own})]


def _input_files(block: Any, name: str = "") -> Iterator[tuple[str, Path]]:
    """Files that a block names: their content is a cause, not their path."""
    if isinstance(block, dict):
        for key, value in block.items():
            yield from _input_files(value, f"{name}.{key}")
    elif isinstance(block, list):
        for number, value in enumerate(block):
            yield from _input_files(value, f"{name}.{number}")
    elif isinstance(block, str) and name.rsplit(".", 1)[-1] in ("path", "file") and Path(block).is_file():
        yield name, Path(block)


def _of_file(path: Path) -> str:
    stat = path.stat()
    return _of_content(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4096)
def _of_content(path: Path, changed_ns: int, size: int) -> str:
    """Digest of a file's content, read once per process and version of the file."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
