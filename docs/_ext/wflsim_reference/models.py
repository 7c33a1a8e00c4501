"""Pages of the models behind a scenario's choices: what the module of each says about formulas and sources."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys

from wflsim.cli.catalogue import groups
from wflsim.scenario.allowed import names_of
from wflsim.spec import first_paragraph
from wflsim.world import fleet
from wflsim_reference.markdown import code, docstring, prose, table
from wflsim_reference.scenario import top_blocks

PAGES = {
    "radio.md": ("Radio models", ("radio", "cell"), "SNR and rate, path loss, fading, losses, access"),
    "devices.md": ("Device and energy models", ("devices", "server"), "computing, power, batteries, availability"),
    "learning.md": ("Data, partitions and models", ("data", "partition", "model", "train"), "what clients learn from"),
}
"""By page: its title, the top-level keys it covers, and what that is."""


def pages() -> dict[str, str]:
    """A page per kind of model."""
    return {name: _page(*about) for name, about in PAGES.items()}


def _page(title: str, keys: tuple[str, ...], what: str) -> str:
    parts = [
        f"# {title}\n",
        f"Models of {what}, with the notes and sources that stand in their modules. Formulas and constants are derived "
        "in [Radio, computing and energy](../radio_and_energy.md); all keys are in [Scenario keys](scenario.md).\n",
    ]
    for group in groups():
        if group.key.split(".")[0] in keys and len(group.entries) > 1:
            rows = [[code(entry.name), prose(entry.what)] for entry in group.entries]
            parts += [f"## `{group.key}`\n", f"Written `{group.example}`.\n", table(["choice", "what it is"], rows)]
    if "devices" in keys:
        parts += ["## Named devices\n", *_named_devices()]
    parts += ["## Notes and sources by module\n"]
    parts += [f"### `{module}`\n\n{_about(module, keys)}" for module in _modules(keys)]
    return "\n".join(parts)


def _modules(keys: tuple[str, ...]) -> list[str]:
    """Modules that define the blocks at and below these keys."""
    return list(dict.fromkeys(block.spec.__module__ for key in keys for block in top_blocks().get(key, [])))


def _about(module: str, keys: tuple[str, ...]) -> str:
    specs = dict.fromkeys(
        block.spec for key in keys for block in top_blocks().get(key, []) if block.spec.__module__ == module
    )
    rows = [[code(", ".join(names_of(spec)) or spec.__name__), prose(first_paragraph(spec))] for spec in specs]
    return docstring(sys.modules[module].__doc__ or "") + "\n" + table(["block", "what it is"], rows)


def _named_devices() -> list[str]:
    """The tables of named devices, which are dictionaries of keys in the modules of the fleet, as they stand there.

    Their comments say where each figure comes from, so the source itself is shown.
    """
    found = []
    for info in pkgutil.iter_modules(fleet.__path__):
        module = importlib.import_module(f"{fleet.__name__}.{info.name}")
        source = inspect.getsource(module)
        for node in ast.parse(source).body:
            name = getattr(getattr(node, "target", None), "id", "")
            value = getattr(module, name, None) if name.isupper() else None
            if isinstance(value, dict) and value and all(isinstance(keys, dict) for keys in value.values()):
                text = ast.get_source_segment(source, node)
                found += [f"### `{module.__name__}`\n", docstring(module.__doc__ or ""), f"```python\n{text}\n```\n"]
    return found
