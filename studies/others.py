"""Other people's numbers, computed by wflsim and laid beside theirs: Wang 2019, Chen 2021, SAFA, FEDL.

    python -m studies.others        writes reports/others/others.csv and README.md (seconds)

Each of them is a scenario in scenarios/others whose world (radio, devices) carries out what they counted; FEDL, an
optimum in closed form, is solved by `studies.closed_forms`. A quantity that nobody has published has no `theirs`: then
`ours` stands beside an independent count. The slow test of the page computes every row again.
"""

from __future__ import annotations

import math
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from studies.closed_forms import PUBLISHED, Solution, solve
from wflsim.exchange import Order
from wflsim.experiments.run import run
from wflsim.files import write
from wflsim.rng import stream
from wflsim.scenario import Scenario, load
from wflsim.world.channel.loss import failure_probability
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.radio import Radio
from wflsim.world.world import World

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "reports" / "others"
BUDGET_S, STEP_S, AGGREGATION_S = 15.0, 0.013015156, 0.131604348
"""Wang et al. 2019: R, c and b."""
CHEN_BITS = 39_760 * 16
CHEN = {(100, 1e-8): (0.0107419, 0.0911190, 0.911214), (250, 5e-8): (0.2864481, 0.2930316, 2.930340),
        (500, 1.1e-7): (0.9486967, 1.355855, None)}  # fmt: skip
"""Chen et al. 2021, by distance in metres and interference in watts: packet error, upload time in s, energy in mJ."""
SAFA_SPEEDS = (2.0261866, 0.08141283105, 0.20646359, 0.35662979, 2.54602729)
"""Batches of 5 samples per second."""
SAFA = {(128, 107, 70, 68, 133): 78857.34861523364, (115, 101, 104, 114, 72): 74435.44121624857,
        (114, 74, 114, 101, 103): 54536.85792081579}  # fmt: skip
"""SAFA, by the clients' samples: seconds of 100 rounds of 3 epochs."""
SAFA_ROUNDS, SAFA_EPOCHS = 100, 3
CRASHES = 0.3
"""Probability that a client crashes in a round, in our own case."""
FEDL = {0.1: Solution(2.17333502, 0.11372141, 0.36663462, 0.25058024, 0.33907574, 0.97634502),
        1.0: Solution(1.02343616, 0.50694986, 0.27411944, 0.27169898, 0.47680139, 3.2096929)}  # fmt: skip
"""FEDL's optimum by the price of a second."""
UNITS = {"t_cmp": "s", "e_cmp": "J", "t_com": "s", "e_com": "J", "theta": "", "objective": ""}


class Row(NamedTuple):
    """One number."""

    work: str
    case: str
    quantity: str
    unit: str
    theirs: float | None
    """As published; None: not published."""
    counted: float | None
    """By an independent count of ours, where nothing is published or they count something else; else None."""
    ours: float
    """By wflsim."""
    relative: float
    """Largest relative difference between ours and the number beside it that digits and models leave."""


def scenario(name: str, *overrides: str) -> Scenario:
    """One of the gallery's scenarios."""
    return load(ROOT / "scenarios" / "others" / f"{name}.yaml", list(overrides))


def wang() -> Iterator[Row]:
    """Rounds of tau steps that a budget of 15 s pays for; whole ones in a run, and by the length of its first round."""
    with tempfile.TemporaryDirectory() as place:
        rounds = run(scenario("wang2019"), Path(place) / "wang", workers=1).rounds
    for tau, theirs in ((1, 103.7), (10, 57.3), (100, 10.5)):
        mine = rounds[rounds["policy"] == f"tau-{tau}"]
        fit = BUDGET_S / (tau * STEP_S + AGGREGATION_S)
        first_s = float(mine["end_s"].iloc[0])
        yield Row("Wang 2019", f"tau {tau}", "rounds in 15 s", "", theirs, fit, BUDGET_S / first_s, 0.5e-2)
        whole = int((mine["end_s"] <= BUDGET_S).sum())
        yield Row("Wang 2019", f"tau {tau}", "whole rounds in 15 s", "", None, math.floor(fit), whole, 0.0)


def chen() -> Iterator[Row]:
    """Packet error, time and energy of one upload per client."""
    spec = scenario("chen2021").world
    world, radio = World(spec, len(CHEN), 0), Radio(spec.radio, Placement(spec.cell, 0), 0)
    world.gather([Order(client, 0, 0, 0, 0, 0, CHEN_BITS, 1, 1, 0) for client in range(len(CHEN))], None)
    legs = world.take_legs()
    for client, ((metres, watts), (error, seconds, energy_mj)) in enumerate(CHEN.items()):
        case = f"{metres} m, I = {watts:g} W"
        sent = next(leg for leg in legs if leg.client == client and leg.activity == "transmit")
        worked = next(leg for leg in legs if leg.client == client and leg.activity == "compute")
        snr = radio.up.snr(client, spec.radio.bandwidth, 0.0)
        mine = failure_probability(spec.radio.loss, snr)
        yield Row("Chen 2021", case, "packet error", "", error, None, mine, 1e-5)
        yield Row("Chen 2021", case, "upload", "s", seconds, None, sent.end_s - sent.start_s, 1e-5)
        gain_w = 0.01 * metres**-2.0
        counted_mj = 10 * CHEN_BITS / 2**20 / math.log2(1 + gain_w / watts) + 4e-5 * CHEN_BITS / 2**20
        ours_mj = 1e3 * (sent.energy_j + worked.energy_j)
        yield Row("Chen 2021", case, "energy", "mJ", energy_mj, counted_mj, ours_mj, 1e-5)


def safa_s(shards: Sequence[int], *overrides: str) -> float:
    """Simulated seconds of SAFA's rounds with these shards."""
    world = World(scenario("safa2021", *overrides).world, len(shards), 0)
    for s in range(SAFA_ROUNDS):
        work = [SAFA_EPOCHS * samples for samples in shards]
        world.gather([Order(client, s, 0, 0, 0, 0, 0, n, n, 0) for client, n in enumerate(work)], None)
    return world.now_s


def crashing_s(shards: Sequence[int]) -> float:
    """The same if clients crash: a round ends with the last who finishes or crashes. Counted without the simulator."""
    total_s = 0.0
    for s in range(SAFA_ROUNDS):
        ends_s = []
        for client, samples in enumerate(shards):
            whole_s = SAFA_EPOCHS * samples / 5 / SAFA_SPEEDS[client]
            crashes, when = stream(0, "dropout", client, s, 0).random(2)
            ends_s.append(when * whole_s if crashes < CRASHES else whole_s)
        total_s += max(ends_s)
    return total_s


def safa() -> Iterator[Row]:
    """Time of 100 rounds, everybody asked; and with crashes, which then do change it."""
    for shards, theirs in SAFA.items():
        yield Row("SAFA", f"shards {shards}", "100 rounds", "s", theirs, None, safa_s(shards), 1e-9)
    shards = next(iter(SAFA))
    kinds = [f"devices.{number}.dropout={CRASHES}" for number in range(len(shards))]
    case = f"shards {shards}, {CRASHES:.0%} crash".replace("%", " %")
    yield Row("SAFA", case, "100 rounds", "s", None, crashing_s(shards), safa_s(shards, *kinds), 1e-9)


def fedl() -> Iterator[Row]:
    """The optimum of five clients for two prices of a second."""
    for kappa, theirs in FEDL.items():
        for name, ours in solve(PUBLISHED, kappa)._asdict().items():
            theirs_too = getattr(theirs, name)
            yield Row("FEDL", f"a second costs {kappa:g}", name, UNITS[name], theirs_too, None, float(ours), 3e-8)


def rows() -> pd.DataFrame:
    """The whole gallery."""
    every = [*wang(), *chen(), *safa(), *fedl()]
    return pd.DataFrame(every, columns=list(Row._fields))


WORDS = {
    "Wang 2019": """
        `wflsim run scenarios/others/wang2019.yaml`. Adaptive federated learning counts a round as c tau + b seconds
        with c = 0.013015156 and b = 0.131604348; ours is the simulated length of a round in which five devices
        receive, compute and send, over a band chosen so that both transfers take b. *Theirs* is R/(c tau + b) to the
        digits that are quoted. Their adaptive choice of tau is not on this page.""",
    "Chen 2021": """
        `scenarios/others/chen2021.yaml`: `radio.interference` per client and the error law `radio.loss.waterfall`
        were added to wflsim for it. Their rate leaves the noise of 1e-14 W out (their error law has it), ours has it
        in both: a millionth of the interference. One of their megabits has 2^20 bits. For 500 m no energy is quoted;
        counted is their formula.""",
    "SAFA": """
        `scenarios/others/safa2021.yaml`. Everybody is selected and the round waits for all, so the slowest client
        alone decides, and crashes could not change their totals. In the last row they do: a client that crashes
        somewhere in its work no longer holds up the round; beside it stands a count from the same random draws
        without the simulator.""",
    "FEDL": """
        `python -m studies.closed_forms`; `tests/tune/test_closed_forms.py` holds it too. Their digits end at 1e-8.""",
}
"""What each part of the page says; wrapped anew there."""


def committed() -> pd.DataFrame:
    """The gallery as it was last written."""
    return pd.read_csv(REPORT / "others.csv").fillna({"unit": ""})


def page(table: pd.DataFrame) -> str:
    """The text of reports/others/README.md."""
    lines = ["# Other people's numbers beside ours", ""]
    lines += ["Made by `python -m studies.others`; the slow test of this page computes every row again."]
    for work, mine in table.groupby("work", sort=False):
        words = " ".join(WORDS[str(work)].split())
        lines += ["", f"## {work}", "", textwrap.fill(words, 118, break_on_hyphens=False), ""]
        lines += ["| case | | theirs | counted apart | ours | ours against it |", "|---|---|---|---|---|---|"]
        for row in mine.itertuples():
            beside = [f"{value:.10g}" if value == value else "" for value in (row.theirs, row.counted)]
            known = row.theirs if row.theirs == row.theirs else row.counted
            unit = f" in {row.unit}" if row.unit else ""
            ours = f"{row.ours:.10g} | {row.ours / known - 1:+.1e}"
            lines.append(f"| {row.case} | {row.quantity}{unit} | {' | '.join(beside)} | {ours} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table and the page."""
    table = rows()
    REPORT.mkdir(parents=True, exist_ok=True)
    write(REPORT / "others.csv", table.to_csv(index=False))
    write(REPORT / "README.md", page(committed()))


if __name__ == "__main__":
    main()
