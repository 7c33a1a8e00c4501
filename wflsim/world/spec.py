"""The world's blocks of a scenario, by which of their keys it can change the learning, and remarks about them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from wflsim.exchange import Edges
from wflsim.spec import Spec
from wflsim.world.access.access import CellSpec
from wflsim.world.access.d2d import D2dSpec
from wflsim.world.access.graph import peers
from wflsim.world.channel.link import REFERENCE_HZ
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.radio import DEFAULT_SNR, RadioSpec, rate_rule
from wflsim.world.channel.traces import describe, read_trace
from wflsim.world.fleet.availability import OutagesSpec
from wflsim.world.fleet.carbon import CarbonSpec
from wflsim.world.fleet.carbon import describe as describe_carbon
from wflsim.world.fleet.draw import FleetSpec
from wflsim.world.fleet.harvest import describe as describe_harvest
from wflsim.world.fleet.hours_files import FileHours, summary
from wflsim.world.fleet.spec import DeviceSpec
from wflsim.world.idle_keys import Facts, contradictions, idle_keys
from wflsim.world.plausible import Remark, implausible, too_strong
from wflsim.world.server import ServerSpec


def _as_list(given: Any) -> Any:
    """One block as a list of one."""
    return given if isinstance(given, list) else [given]


STEPPED_RATES = ("cqi", "fixed")
"""Names of the rate rules with a lowest rate, and outage below it."""
DevicesSpec = Annotated[list[DeviceSpec], Field(min_length=1), BeforeValidator(_as_list)]
"""One kind of device, or a list of kinds."""


class WorldSpec(Spec):
    """Everything that decides about simulated time, energy and delivery: radio, cell, devices and server."""

    radio: RadioSpec = RadioSpec()
    """The radio between clients and base station: SNR, band, power, rate, losses. By default 10 dB on 1 MHz."""
    cell: CellSpec = CellSpec()
    """The radio cell: where clients are and how they share the band. By default each has a band of its own."""
    devices: DevicesSpec = Field(default_factory=lambda: [DeviceSpec()])
    """The clients' devices: one kind, or a list of kinds dealt out in proportion to their shares (see fleet)."""
    server: ServerSpec = ServerSpec()
    """How long the server waits for replies, and which clients it asks. By default it waits for all."""
    d2d: D2dSpec = D2dSpec()
    """Graph of the clients and the links between them, for policies without a server. By default a ring."""

    fleet: FleetSpec | None = None
    """How clients get their devices by a draw, in which speed may go with data or distance; null: the kinds of devices
    are dealt out in turn."""
    outages: OutagesSpec | None = None
    """Correlated failures: groups of clients that go and come back together; null: none."""
    carbon: CarbonSpec | None = None
    """Carbon intensity of the electricity that devices draw, for grams of CO2 equivalent beside joules; null: none."""
    accept: tuple[Remark, ...] = ()
    """Names of remarks about implausible values that are meant as they are; `wflsim list accept` describes each."""

    @model_validator(mode="after")
    def _fit_together(self) -> WorldSpec:
        radio, access = self.radio, self.cell.access
        if access == "makespan" and radio.rate.name in STEPPED_RATES:
            raise ValueError("cell.access makespan plans with smooth rates: radio.rate must be shannon or gap")
        if access in ("ofdma", "makespan") and radio.reading == "power_for_snr" and radio.path_loss is None:
            raise ValueError("radio.reading power_for_snr needs a band of known width: cell.access dedicated or tdma")
        moves = self.fleet is not None and self.fleet.correlation.data_distance and radio.path_loss is not None
        if moves and self.d2d.topology.name == "distance":
            raise ValueError(
                "fleet.correlation.data_distance lets clients trade places, and d2d.topology distance draws its graph "
                "from them before: leave data_distance 0, or choose another topology"
            )
        if any(kind.dvfs == "just_in_time" for kind in self.devices):
            if access != "dedicated":
                raise ValueError(
                    f"devices.dvfs just_in_time needs cell.access dedicated: with {access} the end of an upload "
                    f"depends on those of the others, so that nobody knows how much time is left"
                )
            if self.server.first is not None:
                raise ValueError(
                    "devices.dvfs just_in_time lets all finish with the slowest, and server.first goes on without the "
                    "slowest: remove one of them"
                )
        if wrong := too_strong(self) + contradictions(_facts(self)):
            raise ValueError("; ".join(wrong))
        return self


def graph_of(spec: WorldSpec, clients: int, seed: int) -> Edges:
    """Links of the graph of peers in this world; a ScenarioError names what the graph lacks."""
    return peers(spec.d2d.topology, clients, Placement(spec.cell, seed), seed)


def influences(spec: WorldSpec) -> list[str]:
    """Key paths by which this world can change what is learnt; if there are none, a trace replays exactly."""
    server, loss = spec.server, spec.radio.loss
    found = {
        "server.deadline": server.deadline is not None,
        "server.first": server.first is not None,
        "server.quorum": server.quorum is not None,
        "server.compute_budget": server.compute_budget is not None,
        "server.selector": server.selector != "by_lambda",
        "server.over_selection": server.over_selection > 1,
        "radio.loss.probability": loss.probability > 0,
        "radio.loss.outage_threshold": loss.outage_threshold is not None,
        "radio.loss.waterfall": loss.waterfall is not None,
        "radio.rate.name": _stepped_outages(spec.radio),
        "d2d.snr": spec.d2d.snr is not None and not rate_rule(spec.radio).efficiency(np.array(spec.d2d.snr)).all(),
        **_silence(spec.radio),
        "outages": spec.outages is not None,
    }
    for number, device in enumerate(spec.devices):
        block = "devices" if len(spec.devices) == 1 else f"devices.{number}"
        found[f"{block}.battery"] = device.battery is not None
        found[f"{block}.availability"] = device.availability is not None
        found[f"{block}.dropout"] = device.dropout > 0
    return [key for key, present in found.items() if present]


def remarks(spec: WorldSpec) -> list[str]:
    """Sentences that a user should read before a long run: slow combinations, the channel trace, idle keys."""
    radio, found = spec.radio, []
    if spec.cell.access == "ofdma" and radio.noise_follows_band:
        found.append(
            "cell.access ofdma with noise that follows the band: every start or end of a transfer changes every rate, "
            "so an event costs time in proportion to the number of transfers"
        )
    if spec.cell.access == "ofdma" and radio.fading is not None and radio.fading.time == "block":
        found.append("cell.access ofdma with block fading: every transfer is looked at again in every fading block")
    if spec.cell.access == "makespan" and (radio.fading is not None or radio.trace is not None or spec.cell.speed > 0):
        found.append("cell.access makespan plans with the channel as it is when a phase begins")
    changes = (radio.fading is not None and radio.fading.time == "block") or radio.trace is not None
    if any(kind.dvfs == "just_in_time" for kind in spec.devices) and (changes or spec.cell.speed > 0):
        found.append("devices.dvfs just_in_time plans with the channel as it is when a phase begins")
    if radio.trace is not None:
        found.append(describe(radio.trace.file))
    if spec.d2d.edge_loss == "one_way" and _facts(spec).lost:
        found.append(
            "d2d.edge_loss one_way: a link that fails in one direction leaves a mixing matrix that is not doubly "
            "stochastic, so that the mean over the nodes drifts"
        )
    found += [summary(kind.availability) for kind in spec.devices if isinstance(kind.availability, FileHours)]
    found += [words for kind in spec.devices if kind.harvest is not None and (words := describe_harvest(kind.harvest))]
    found += describe_carbon(spec.carbon)
    first, quorum = spec.server.first, spec.server.quorum
    if first is not None and quorum is not None and first < quorum:
        found.append(
            f"server.first={first} ends every phase before server.quorum={quorum} is met: no reply will ever count"
        )
    if any(kind.modem == "lte_2012" for kind in spec.devices) and spec.radio.path_loss is not None:
        found.append(
            "devices.modem lte_2012 draws the same whatever it radiates: radio.power decides its rate, not its watts"
        )
    return found + idle_keys(_facts(spec)) + implausible(spec)


def _facts(spec: WorldSpec) -> Facts:
    """What the rules about idle keys need to know about a world."""
    world = {"server.quorum", "server.selector", "server.over_selection"}
    missing = set(influences(spec)) - world
    return Facts(spec, outages_possible(spec.radio), bool(missing), bool(missing - {"server.deadline", "server.first"}))


def _stepped_outages(radio: RadioSpec) -> bool:
    """Whether the rate rule has a lowest rate, and the SNR may be too low for it."""
    if radio.rate.name not in STEPPED_RATES:
        return False
    fades = radio.fading is not None and radio.fading.time == "block"
    if radio.path_loss is not None or radio.trace is not None or fades:
        return True
    snr = np.array((radio.snr or [DEFAULT_SNR]) + (radio.downlink.snr or []))
    if radio.reading == "snr_at_1mhz":
        snr = snr * REFERENCE_HZ / max(radio.bandwidth, radio.downlink.bandwidth or 0.0)
    return not rate_rule(radio).efficiency(snr[snr > 0]).all()


def _silence(radio: RadioSpec) -> dict[str, bool]:
    """By key: whether by it some client receives nothing at all at some time, which is an outage by any rate rule."""
    paths, control = radio.path_loss is not None, radio.power_control
    return {
        "radio.snr": not all(radio.snr or [DEFAULT_SNR]),
        "radio.downlink.snr": not all(radio.downlink.snr or [DEFAULT_SNR]),
        "radio.power": paths and not all(radio.power),
        "radio.power_control.target": control is not None and control.target == 0,
        "radio.downlink.power": paths and radio.downlink.power == 0,
        "radio.trace.file": radio.trace is not None and not read_trace(radio.trace.file).covered,
    }


def outages_possible(radio: RadioSpec) -> bool:
    """Whether a transfer may stand still because nothing can be sent, as far as that is known beforehand."""
    return _stepped_outages(radio) or any(_silence(radio).values())
