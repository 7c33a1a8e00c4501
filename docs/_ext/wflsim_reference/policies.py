"""Pages of the policies: what each is, sends and needs, its deviations, equations, keys and source."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from wflsim.policies.base import Policy
from wflsim.policies.registry import POLICIES
from wflsim.spec import first_paragraph
from wflsim_reference.markdown import code, docstring, prose, table
from wflsim_reference.scenario import keys_table

EQUATIONS = Path(__file__).parents[2] / "policies.md"
"""The page written by hand that holds the equations, a section per policy."""


def name_of(policy: type[Policy]) -> str:
    """The value of `name` that chooses the policy."""
    return str(policy.model_fields["name"].default)


def _plain(text: str) -> str:
    """Letters and digits only, for comparing names."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def sections() -> dict[str, str]:
    """The sections of the equations' page, by heading."""
    parts = re.split(r"^## (.+)$", EQUATIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def equations(policy: type[Policy]) -> str:
    """The section whose heading names the policy or its class, alone or in a list; empty if there is none."""
    wanted = {_plain(name_of(policy)), _plain(policy.__name__)}
    for heading, text in sections().items():
        if wanted & {_plain(part) for part in re.split(r",| and |\(|\)|:", heading)}:
            return text.strip() + "\n"
    return ""


def facts(policy: type[Policy]) -> list[list[str]]:
    """What the class says about itself, as rows of a table."""
    learning = "depends on the world: always trained in it" if policy.asynchronous else "replayable where exact"
    return [
        ["paper", prose(policy.about.paper)],
        ["phases of a round", str(policy.about.phases)],
        ["sent down to each participant", code(policy.about.down)],
        ["sent up by each participant", code(policy.about.up)],
        ["needs", prose(policy.about.needs) or "training on demand, nothing else"],
        ["learning", learning],
    ]


def pages() -> dict[str, str]:
    """A page that lists the policies, and one for each."""
    rows = [
        [f"[{name_of(policy)}](policies/{name_of(policy)}.md)", prose(first_paragraph(policy)),
         prose(policy.about.paper), code(policy.about.down), code(policy.about.up)]
        for policy in POLICIES
    ]  # fmt: skip
    toc = "\n".join(f"policies/{name_of(policy)}" for policy in POLICIES)
    overview = (
        "# Policies\n\nWritten `policies: [{name: fedavg, m: 6, tau: 10}, ...]`. `1v` is a vector of all parameters, "
        "`1s` a scalar; a slash separates the phases of a round. What all of them have in common, and the identities "
        "that tests hold, stand in [Policies: equations, what is sent, and pitfalls](../policies.md).\n\n"
        + table(["name", "what it is", "paper", "down", "up"], rows)
        + f"\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )
    return {"policies.md": overview, **{f"policies/{name_of(policy)}.md": _page(policy) for policy in POLICIES}}


def _page(policy: type[Policy]) -> str:
    module = sys.modules[policy.__module__]
    parts = [
        f"# {name_of(policy)}\n",
        prose(first_paragraph(policy)) + "\n",
        table(["", ""], facts(policy)),
        "## Paper, and where this differs from it\n",
        docstring(module.__doc__ or ""),
    ]
    if text := equations(policy):
        parts += ["## Equations\n", _relinked(text)]
    parts += ["## Keys\n", keys_table(policy, leave_out=("name",))]
    source = inspect.getsource(policy).rstrip()
    where = policy.__module__.replace(".", "/") + ".py"
    parts += ["## Source\n", f"`{where}`, to be read beside the paper:\n", f"```python\n{source}\n```\n"]
    return "\n".join(parts)


def _relinked(text: str) -> str:
    """Links of a page in docs/ as seen from docs/reference/policies/."""
    return re.sub(r"\]\((?!http|#)([^)]+)\)", r"](../../\1)", text)


def undescribed() -> list[str]:
    """Policies of which the page could not say what they are, whose they are or what they send."""
    known = {one: (first_paragraph(one), one.about.paper, one.about.down, one.about.up) for one in POLICIES}
    return [name_of(one) for one, facts in known.items() if not all(facts)]
