"""The answer of tuning in a few sentences: which setting, for how much, how sure; and what could not be found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from wflsim.analysis.formats import duration, percent, si
from wflsim.analysis.ranking import surest_then_cheapest
from wflsim.analysis.tables import Interval
from wflsim.tune.candidate import Candidate, Choice
from wflsim.tune.chance import FEWEST
from wflsim.tune.costs import shown
from wflsim.tune.growth import SPENT
from wflsim.tune.question import Study

COUNTS = {1: "one seed", 2: "two seeds"}


def answer(found: Study) -> str:
    """Which tau, for how much, and how sure; over a map, from where to where. No winner where nobody reached."""
    sentences = []
    for policy in dict.fromkeys(policy for policy, _ in found.choices):
        own = {number: choice for (name, number), choice in found.choices.items() if name == policy}
        won = {number: choice for number, choice in own.items() if choice.best is not None}
        sentences += _winners(found, policy, own, won) if won else []
        if len(won) < len(own):
            sentences.append(_nobody(found, policy, {n: choice for n, choice in own.items() if n not in won}, len(own)))
        sentences += _doubts(found, own)
        sentences += _front(found, policy)
    sentences += _cheapest(found)
    return " ".join(sentences)


def goal(found: Study) -> str:
    """80 % worst accuracy"""
    return f"{percent(found.target.accuracy)} {found.target.metric} accuracy"


def _winners(found: Study, policy: str, own: Mapping[int, Choice], won: Mapping[int, Choice]) -> list[str]:
    low, high = (pick(won, key=lambda number: won[number].nearest.tau) for pick in (min, max))
    if len(own) == 1:
        sentences = [f"{policy} reaches {goal(found)} with {_one(found, own[low])}."]
    else:
        sentences = [
            f"{policy}, {goal(found)}: tau* from {won[low].nearest.tau} ({_where(found, low)}: "
            f"{_one(found, won[low])}) to {won[high].nearest.tau} ({_where(found, high)}: {_one(found, won[high])})."
        ]
    sentences += _edges(own, won)
    if missed := sum(choice.nearest.p_reach < 1 for choice in won.values()):
        sentences.append(
            f"In {missed} of {len(own)} regimes even the best tau misses it on some seeds, and its cost is at least "
            f"what is given."
        )
    return sentences


def _edges(own: Mapping[int, Choice], won: Mapping[int, Choice]) -> list[str]:
    """Where tau* is the first or last candidate, and why the search went no further."""
    reasons = Counter(
        (choice.nearest.tau if choice.why_edge else 0, choice.why_edge)
        for choice in won.values()
        if choice.edge or choice.why_edge
    )
    sentences = []
    for (tau, why), times in sorted(reasons.items()):
        where = "Here" if len(own) == 1 else f"In {times} of {len(own)} regimes"
        if why == SPENT:
            sentences.append(f"{where} the search ended at tau*={tau} because {why}: raise it to look further.")
        elif why:
            sentences.append(f"{where} tau* is {tau}: {why}.")
        else:
            sentences.append(f"{where} tau* is the first or last candidate: try beyond.")
    return sentences


def _nobody(found: Study, policy: str, lost: Mapping[int, Choice], regimes: int) -> str:
    nearest = max((choice.nearest for choice in lost.values()), key=lambda one: one.attained)
    where = "" if regimes == 1 else f" in {'any' if len(lost) == regimes else len(lost)} of {regimes} regimes"
    if unmet := [choice for choice in lost.values() if choice.unmet]:
        one = unmet[0]
        what = _kind(one)
        return f"No {what} of {policy} keeps to tune.subject_to{where}; nearest: {one.nearest.name} with {one.unmet}."
    diverged = all(one.censored == 0 for choice in lost.values() for one in choice.candidates)
    ended = "every run diverged" if diverged else f"nearest: {nearest.name} with {percent(nearest.attained)}"
    return f"No {_kind(next(iter(lost.values())))} brings {policy} to {goal(found)}{where}; {ended}."


def _doubts(found: Study, own: Mapping[int, Choice]) -> list[str]:
    """Taus that were cut off too early to be judged, and too few seeds to judge by."""
    sentences = []
    open_ = {number: choice for number, choice in own.items() if choice.could_win}
    if open_:
        cut_off = {one.name: one.tau for choice in open_.values() for one in choice.cut_off}
        knobs = any(one.knobs for choice in open_.values() for one in choice.cut_off)
        names = "; ".join(cut_off) if knobs else f"tau={', '.join(map(str, sorted(cut_off.values())))}"
        where = "" if len(own) == 1 else f"In {len(open_)} of {len(own)} regimes "
        rounds = found.regimes[0].scenario.stop.rounds
        may = "could still win" if any(choice.best is not None for choice in open_.values()) else "may still reach it"
        cut = f"stop.rounds={rounds} cut off {names}, which {may}: raise stop.rounds."
        sentences.append(f"{where}{cut}")
    seeds = min(choice.seeds for choice in own.values())
    several = any(len(choice.candidates) > 1 and choice.best is not None for choice in own.values())
    if seeds < FEWEST and several and found.spec.rounds_to_target is None:
        what = _kind(next(iter(own.values())))
        sentences.append(f"{COUNTS[seeds].capitalize()} cannot say which {what} is best: take three or more.")
    return sentences


def _one(found: Study, choice: Choice) -> str:
    best = choice.nearest
    text = f"{best.name} for {'at least ' if best.censored else ''}{spread(found, best.cost)}"
    if np.isfinite(choice.unseen.mean) and len(choice.candidates) > 1:
        least = "at least " if choice.unseen_missed else ""
        text += f" (on seeds that did not choose it {least}{spread(found, choice.unseen)})"
    if len(choice.as_good) > 1 and best.knobs:
        text += f", within 5 %: {len(choice.as_good)} of {len(choice.candidates)} settings"
    elif len(choice.as_good) > 1:
        text += f", within 5 %: {' '.join(map(str, choice.within5))}"
        if choice.within5[0] < best.tau:
            text += f" (tau={choice.within5[0]} is the smallest as good)"
    if np.isfinite(best.p_best) and len(choice.candidates) > 1:
        text += f", the best of these with {chance(best)} confidence"
    return text


def spread(found: Study, cost: Interval) -> str:
    """12.3 J [11.1 J, 13.6 J]; without an interval the cost alone."""
    text = shown(found.spec, cost.mean)
    return f"{text} [{shown(found.spec, cost.low)}, {shown(found.spec, cost.high)}]" if np.isfinite(cost.low) else text


def chance(one: Candidate) -> str:
    """84 %, or at least 84 % where some run was cut off; - where the seeds are too few."""
    if not np.isfinite(one.p_best):
        return "-"
    if abs(one.p_best_most - one.p_best) < 0.0005:
        return percent(one.p_best)
    return f"at most {percent(one.p_best_most)}" if one.p_best < 0.0005 else f"at least {percent(one.p_best)}"


def _where(found: Study, number: int) -> str:
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value}" for key, value in found.regimes[number].values.items())


def _kind(choice: Choice) -> str:
    """What the candidates of a choice are called."""
    return "setting" if choice.nearest.knobs else "tau"


def _front(found: Study, policy: str) -> list[str]:
    """The ends of the front of energy against time, or that there is none."""
    sentences = []
    for (name, number), points in found.front.items():
        if name != policy:
            continue
        where = f" ({_where(found, number)})" if len(found.regimes) > 1 else ""
        if not points:
            sentences.append(f"The front of {policy}{where} is empty: no setting reaches the target within the limits.")
            continue
        fast, frugal = (f"{duration(one.time.mean)} and {si(one.energy.mean, 'J')} with {one.name}" for one in
                        (points[0], points[-1]))  # fmt: skip
        between = "is one point" if len(points) == 1 else f"has {len(points)} points, from {fast} to"
        sentences.append(f"The front of {policy}{where} {between} {frugal}.")
    return sentences


def _cheapest(found: Study) -> list[str]:
    """Which policy is the best one of several, in how many regimes."""
    policies = list(dict.fromkeys(policy for policy, _ in found.choices))
    if len(policies) < 2:
        return []
    wins: Counter[str] = Counter()
    for number in {number for _, number in found.choices}:
        own = [(policy, found.choices[policy, number].best) for policy in policies]
        ranked = sorted((*surest_then_cheapest(best.p_reach, best.cost.mean), name) for name, best in own if best)
        wins.update(str(one[-1]) for one in ranked[:1])
    regimes = len(found.regimes)
    return [
        f"Of {', '.join(policies)}, {policy} reaches the target at the least {found.spec.objective}"
        f"{'' if regimes == 1 else f' in {count} of {regimes} regimes'}."
        for policy, count in wins.most_common()
    ]
