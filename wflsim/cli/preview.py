"""What `wflsim check` says about a valid scenario.

One round of every policy is rehearsed, so that bits, joules and the expected duration are measured, not guessed; then
follows how much `run` and `tune` would have to do.
"""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import duration, si
from wflsim.cli.forecast import forecast_run, forecast_tune, words
from wflsim.cli.rehearsal import Stage
from wflsim.door import origin_of
from wflsim.errors import ScenarioError
from wflsim.policies.base import Policy
from wflsim.scenario import Scenario
from wflsim.scenario.remarks import remarks
from wflsim.world.spec import influences


def preview(scenario: Scenario) -> Group:
    """A table of payload, memory, mode and cost with a column per policy; below, the work of all runs, and remarks."""
    stage = Stage()
    facts = [_fact(scenario, policy, stage) for policy in range(len(scenario.policies))]
    learner, _ = stage.learner(scenario)
    sizes = learner.samples
    table = Table(title_justify="left")
    table.title = (
        f"{scenario.clients} clients with {min(sizes)} to {max(sizes)} samples, model {scenario.model.name} of "
        f"{learner.parameters} parameters, {len(scenario.seeds)} seeds"
    )
    table.add_column("")
    for label in scenario.labels:
        table.add_column(label, justify="right")
    for name in facts[0]:
        table.add_row(name, *(fact[name] for fact in facts))
    lines = [words("run", forecast_run(scenario, stage))]
    if scenario.tune is not None:
        lines.append(_tuning(scenario, stage))
    return Group(table, *(Text(line) for line in (*lines, *_own_code(scenario), *remarks(scenario))))


def _own_code(scenario: Scenario) -> list[str]:
    """Which files of the user's own would be run, policy by policy."""
    found = []
    for label, policy in zip(scenario.labels, scenario.policies, strict=True):
        if origin := origin_of(policy):
            loads = [str(file) for file in origin.files if file != origin.file]
            more = f"of {origin.package}" if origin.package else f"which loads {', '.join(loads)}" if loads else ""
            found.append(f"{label} would be run from {origin.file}:{origin.line}{', ' * bool(more)}{more}")
    return found


def _tuning(scenario: Scenario, stage: Stage) -> str:
    """What `wflsim tune` would have to do, or why it would refuse."""
    if scenario.stop.target is None:
        return "`wflsim tune`: needs a target: stop.target in the scenario, or --target 0.8"
    try:
        return words("tune", forecast_tune(scenario, stage))
    except ScenarioError as error:
        return f"`wflsim tune` would refuse: {error}"


def mode(scenario: Scenario, policy: Policy) -> str:
    """Learner and carrier of a policy, and why these."""
    if policy.asynchronous:
        return "live (asynchronous: the order of replies is part of the learning)"
    found = influences(scenario.world)
    if found:
        return f"live ({', '.join(found)} can change the learning)"
    return "live; its trace replays exactly in other regimes"


def _fact(scenario: Scenario, policy: int, stage: Stage) -> dict[str, str]:
    """What is said about one policy: the text of each row of the table, by its heading."""
    found = stage.rehearse(scenario, policy)
    row = found.row
    run_s = found.setup_s + (found.train_s + found.carry_s) * scenario.stop.rounds
    never = f"no round can begin: {found.reason}"
    return {
        "learner and carrier": mode(scenario, scenario.policies[policy]),
        "sent up in a round": si(row.up_bits, "bit") if row else never,
        "received in a round": si(row.down_bits, "bit") if row else never,
        "simulated time of a round": duration(row.end_s) if row else never,
        "energy of a round": si(row.energy_j, "J") if row else never,
        "client memories, at most": si(found.client_bytes * scenario.clients, "B"),
        "rounds, at most": str(scenario.stop.rounds),
        "computing time of a run, at most": duration(run_s),
    }
