"""Idle keys: keys of a scenario that have no effect in the world that it describes, in one table of rules.

An idle key is remarked upon (`wflsim check` and `wflsim run` print it). Two keys of one block that contradict each
other are refused. Only keys that the user has written count: neither defaults nor what a profile fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from wflsim.spec import Spec
from wflsim.world.fleet.spec import DeviceSpec

if TYPE_CHECKING:
    from wflsim.world.spec import WorldSpec


class Rule(NamedTuple):
    """Keys of one block of a scenario that have no effect if `idle` is true."""

    block: str
    """Dotted name of the block."""
    keys: tuple[str, ...]
    idle: Callable[[Any, Facts], bool]
    """Of the block and the facts about its world: whether the keys have no effect."""
    because: str
    """Why they have none, finishing the sentence `has no effect here: ...`."""
    against: str | None = None
    """Key of the same block that makes them idle: where both are written, they contradict each other."""


class Facts(NamedTuple):
    """What a rule may ask about the world as a whole."""

    world: WorldSpec
    outages: bool
    """Whether a transfer may stand still because nothing can be sent."""
    missing: bool
    """Whether a reply may be missing for any reason, the deadline included."""
    lost: bool
    """Whether a reply may be lost before any deadline."""

    @property
    def placed(self) -> bool:
        """Whether positions, powers and noise decide the SNR."""
        return self.world.radio.path_loss is not None


def _static(fading: Any) -> bool:
    """Whether there is no fading that changes in time."""
    return fading is None or fading.time == "ergodic" or fading.speed == 0


GIVEN = "the SNR is given (radio.snr or radio.trace), not derived from a radio.path_loss"
RULES = (
    Rule("radio", ("reading",), lambda radio, facts: facts.placed, "with path_loss, noise always grows with the band"),
    Rule(
        "radio",
        ("carrier",),
        lambda radio, facts: getattr(radio.path_loss, "name", "") in ("", "log_distance") and _static(radio.fading),
        "only a path_loss of TR 38.901 and fading in blocks depend on it",
    ),
    Rule(
        "radio", ("noise_figure", "interference_margin", "interference"), lambda radio, facts: not facts.placed, GIVEN
    ),
    Rule(
        "radio",
        ("power",),
        lambda radio, facts: all(kind.radiated_power is not None for kind in facts.world.devices),
        "every kind of device has a radiated_power of its own",
    ),
    Rule(
        "radio",
        ("power",),
        lambda radio, facts: not facts.placed and all(kind.amplifier_exponent == 0 for kind in facts.world.devices),
        "the SNR is given, and every modem draws the same whatever it radiates; only the radiated joules and those of "
        "the paper's formula follow it",
    ),
    Rule("radio", ("patience",), lambda radio, facts: not facts.outages, "no transfer can stand still here"),
    Rule(
        "radio.fading",
        ("speed", "block"),
        lambda fading, facts: fading.time == "ergodic",
        "time: ergodic averages over all states of the channel",
    ),
    Rule(
        "radio.fading",
        ("block",),
        lambda fading, facts: fading.time == "block" and fading.speed == 0,
        "at speed 0 the channel never changes",
    ),
    Rule(
        "radio.loss",
        ("attempts", "block"),
        lambda loss, facts: loss.none,
        "no attempt fails without probability, outage_threshold or waterfall",
    ),
    Rule("radio.downlink", ("power", "noise_figure"), lambda down, facts: not facts.placed, GIVEN),
    Rule(
        "radio.path_loss",
        ("correlation",),
        lambda loss, facts: getattr(loss, "sigma_db", 1) == 0,
        "there is no shadow: sigma_db is 0",
    ),
    Rule(
        "cell",
        ("radius", "min_distance", "distances"),
        lambda cell, facts: not facts.placed and facts.world.d2d.topology.name != "distance",
        GIVEN,
    ),
    Rule("cell", ("speed",), lambda cell, facts: not facts.placed, GIVEN),
    Rule("fleet.correlation", ("speed_distance", "data_distance"), lambda spec, facts: not facts.placed, GIVEN),
    Rule(
        "fleet.correlation",
        ("speed_data", "speed_distance"),
        lambda spec, facts: len(facts.world.devices) == 1 and facts.world.devices[0].spread == 0,
        "all devices are equally fast: there is one kind, and its spread is 0",
    ),
    Rule(
        "cell",
        ("deadline",),
        lambda cell, facts: cell.access != "least_energy",
        "only the plan of cell.access least_energy looks at it; server.deadline interrupts who is late",
    ),
    Rule("d2d", ("edge_loss",), lambda d2d, facts: not facts.lost, "no link can fail here"),
    Rule("devices", ("share",), lambda kind, facts: len(facts.world.devices) == 1, "there is only one kind of device"),
    Rule(
        "devices",
        ("memory_share", "clock_exponent"),
        lambda kind, facts: kind.dvfs == "fixed"
        and (kind.max_frequency is None or kind.frequency in (None, kind.max_frequency)),
        "the processor runs at full clock",
    ),
    Rule("devices", ("min_frequency",), lambda kind, facts: kind.dvfs == "fixed", "only dvfs just_in_time slows down"),
    Rule("devices", ("wake_power",), lambda kind, facts: kind.wake == 0, "waking takes no time"),
    Rule("devices", ("tail_power",), lambda kind, facts: kind.tail == 0, "there is no tail"),
    Rule(
        "devices",
        ("tail",),
        lambda kind, facts: kind.tail_power == kind.listen_power == kind.sleep_power and kind.wake == 0,
        "the modem draws the same in its tail, listening and asleep, and wakes at once",
    ),
    Rule("server", ("quorum",), lambda server, facts: not facts.missing, "no reply can be missing here"),
    Rule("server", ("loss_detection",), lambda server, facts: not facts.lost, "no reply can be lost here"),
    Rule(
        "server.fedcs",
        ("deadline",),
        lambda plan, facts: facts.world.server.selector != "fedcs",
        "selector is not fedcs",
    ),
    Rule(
        "server.oort",
        ("epsilon", "epsilon_decay", "epsilon_min", "cut_off", "clip", "alpha", "pace", "pace_step", "window"),
        lambda oort, facts: facts.world.server.selector != "oort",
        "selector is not oort",
    ),
    Rule(
        "server",
        ("idle",),
        lambda server, facts: all(
            kind.compute_idle_power == kind.sleep_power == kind.tail_power == 0 for kind in facts.world.devices
        ),
        "a device that is not selected draws nothing: compute_idle_power and sleep_power are 0",
    ),
    Rule(
        "server",
        ("selector",),
        lambda server, facts: (
            server.selector == "availability"
            and facts.world.outages is None
            and all(kind.availability is None for kind in facts.world.devices)
        ),
        "all devices are available at all times, so that the policy's race alone decides",
    ),
)


def idle_keys(facts: Facts) -> list[str]:
    """A sentence for every key that was written and has no effect."""
    return [
        f"{path}.{key} has no effect here: {rule.because}"
        for path, block, rule in _idle(facts)
        for key in rule.keys
        if key in _written(block)
    ]


def contradictions(facts: Facts) -> list[str]:
    """A sentence for every pair of keys in one block of which one makes the other idle.

    Not in a block in which every key is written: that is a resolved scenario, spelled out by wflsim itself.
    """
    return [
        f"{path}.{key} and {path}.{rule.against} contradict each other: {rule.because}; remove one of them"
        for path, block, rule in _idle(facts)
        for key in rule.keys
        if rule.against and {key, rule.against} <= block.model_fields_set and not _resolved(block)
    ]


def _idle(facts: Facts) -> Iterator[tuple[str, Spec, Rule]]:
    """(path, block, rule) of every rule whose keys have no effect in that block."""
    for rule in RULES:
        for path, block in _blocks(facts.world, rule.block):
            if rule.idle(block, facts):
                yield path, block, rule


def _blocks(world: WorldSpec, name: str) -> Sequence[tuple[str, Spec]]:
    """(path, block) of every block of this name: several for devices of several kinds, none if it is null."""
    if name == "devices":
        one = len(world.devices) == 1
        return [("devices" if one else f"devices.{number}", kind) for number, kind in enumerate(world.devices)]
    block: Any = world
    for part in name.split("."):
        block = None if block is None else getattr(block, part)
    return [] if block is None else [(name, block)]


def _resolved(block: Spec) -> bool:
    """Whether every key of a block is written, as in a resolved scenario."""
    return block.model_fields_set == set(type(block).model_fields)


def _written(block: Spec) -> set[str]:
    """Keys that the user wrote; of a resolved scenario, which has them all, those that are not at their defaults."""
    if not _resolved(block):
        return block.model_fields_set
    defaults = {name: field.get_default(call_default_factory=True) for name, field in type(block).model_fields.items()}
    if isinstance(block, DeviceSpec):
        named = DeviceSpec.model_validate({"compute": block.compute, "modem": block.modem})
        defaults = {name: getattr(named, name) for name in defaults}
    return {name for name, default in defaults.items() if getattr(block, name) != default}
