"""Runs of several folders in one table: regimes by what they are, policies by what they are, and paired differences.

`wflsim compare` and the page of several folders both ask this module, so that they say the same. Two folders share a
regime when their resolved scenarios are the same except for what does not change a run: name, description, seeds and
the list of policies. Names decide nothing: two worlds may be called alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wflsim.analysis.formats import whole
from wflsim.analysis.ranking import PAIRED, Pair, against_best
from wflsim.analysis.tables import over_seeds

APART = ("name", "description", "seeds", "policies", "sweep", "tune")
"""Blocks of a scenario that may differ between two folders that share a regime."""


class Part(NamedTuple):
    """One policy in one regime of one folder."""

    folder: str
    """Name of the folder that the runs come from."""
    scenario: Mapping[str, Any]
    """The resolved scenario of the regime."""
    label: str
    """Name of the policy in that folder."""
    policy: Mapping[str, Any]
    """The policy's hyper-parameters."""
    runs: pd.DataFrame
    """The runs of that policy, one row per seed, with the columns of runs.csv."""


class Comparison(NamedTuple):
    """Policies x regimes, with the differences to the best of each regime."""

    lines: pd.DataFrame
    """One row per regime and policy: means and intervals over seeds."""
    pairs: pd.DataFrame
    """One row per regime and policy that is not its best: against the best, on common seeds."""
    keys: list[str]
    """Scenario keys in which the regimes differ: a column of both tables each, beside `regime`, which joins them."""
    notes: list[str]
    """What was left out, in sentences."""


def join(parts: Sequence[Part], notes: Sequence[str] = ()) -> Comparison:
    """Put the parts into regimes and compare the policies of each."""
    from wflsim.scenario.differences import describe, differences  # brings SimPy: a page of one folder needs none

    worlds = [{key: value for key, value in part.scenario.items() if key not in APART} for part in parts]
    names = [json.dumps(world, sort_keys=True, default=str) for world in worlds]
    regimes = dict.fromkeys(names)
    told = dict(zip(regimes, differences([worlds[names.index(name)] for name in regimes]), strict=True))
    keys = list(dict.fromkeys(key for values in told.values() for key in values))
    lines: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    for name in regimes:
        mine = [part for part, own in zip(parts, names, strict=True) if own == name]
        runs = pd.concat([part.runs.assign(policy=label) for part, label in _labelled(mine)], ignore_index=True)
        has_target = (mine[0].scenario.get("stop") or {}).get("target") is not None
        place = {"regime": describe(told[name]), **told[name]}
        rows = [
            {**place, "policy": str(policy), **over_seeds(own, has_target)}
            for policy, own in runs.groupby("policy", sort=False)
        ]
        lines += rows
        pairs += [{**place, **_difference(found)} for found in against_best(rows, runs, has_target)]
    return Comparison(pd.DataFrame(lines), pd.DataFrame(pairs), keys, list(notes))


def saving(row: Mapping[str, Any]) -> str:
    """The energy that the best saves in one row of `pairs`: "59 % [39 %, 72 %]", or words if it is not known."""
    if not row["common_seeds"]:
        return "no seed in common"
    if row["missed_by_best"] or not np.isfinite(row["saved"]):
        return "not known"
    bounds = f" [{whole(row['saved_low'])}, {whole(row['saved_high'])}]" if np.isfinite(row["saved_low"]) else ""
    return f"{'at least ' if row['missed_seeds'] else ''}{whole(row['saved'])}{bounds}"


def _labelled(parts: Sequence[Part]) -> list[tuple[Part, str]]:
    """What each part is called in its regime: by its label, and by what differs where two policies share one.

    The same policy in two folders is one policy with more seeds. A seed that both have and that came out differently
    (another version of the program, say) keeps them apart, by the names of the folders.
    """
    from wflsim.scenario.differences import describe, differences

    found = []
    kept: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        alike = [other.policy for other in parts if other.label == part.label]
        distinct = [policy for i, policy in enumerate(alike) if policy not in alike[:i]]
        told = describe(differences([_bare(policy) for policy in distinct])[distinct.index(part.policy)])
        label = f"{part.label} ({told})" if told else part.label
        earlier = kept.setdefault((label, json.dumps(part.policy, sort_keys=True, default=str)), [])
        fresh = part.runs
        for other in earlier:
            common = fresh.merge(other.runs, on="seed", suffixes=("", "_other"))
            if not np.allclose(common["energy_j"], common["energy_j_other"], rtol=1e-9, atol=0.0):
                label, fresh = f"{label} ({part.folder})", part.runs
                break
            fresh = fresh[~fresh["seed"].isin(other.runs["seed"])]
        else:
            earlier.append(part)
        if len(fresh):
            found.append((part._replace(runs=fresh), label))
    return found


def identified(policy: Mapping[str, Any], code: Mapping[str, str] | None) -> Mapping[str, Any]:
    """A policy's keys; those of a user's own say by what it does, not by where its file lies, which one it is."""
    own = (code or {}).get(".policy")
    return policy if own is None else {**policy, "name": str(policy["name"]).rpartition(":")[2], "code": own[:8]}


def _bare(policy: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in policy.items() if key != "label"}


def _difference(found: Pair) -> dict[str, Any]:
    """One row of `Comparison.pairs`, without the columns that name the regime."""
    row: dict[str, Any] = {
        "policy": found.other, "against": found.best, "common_seeds": found.common,
        "missed_seeds": found.other_missed, "missed_by_best": found.best_missed,
    }  # fmt: skip
    for name in PAIRED:
        row |= found.more[name].columns(f"{name}_more")
    return {**row, **found.saved.columns("saved"), "told_apart": found.told_apart}
