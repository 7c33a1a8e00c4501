"""The world's part of a scenario, and by which of its keys the world can change the learning."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from wflsim.units import Spec
from wflsim.world.cell import CellSpec
from wflsim.world.devices import DeviceSpec
from wflsim.world.radio import RadioSpec
from wflsim.world.server import ServerSpec


def _as_list(given: Any) -> Any:
    return given if isinstance(given, list) else [given]


DevicesSpec = Annotated[list[DeviceSpec], Field(min_length=1), BeforeValidator(_as_list)]
"""One kind of device, or a list of kinds."""


class WorldSpec(Spec):
    """Everything between "the server wants" and "the reply arrived"."""

    radio: RadioSpec = RadioSpec()
    cell: CellSpec = CellSpec()
    devices: DevicesSpec = Field(default_factory=lambda: [DeviceSpec()])
    server: ServerSpec = ServerSpec()


def influences(spec: WorldSpec) -> list[str]:
    """Key paths by which this world can change what is learnt; none: a trace replays exactly."""
    server, loss = spec.server, spec.radio.loss
    found = {
        "server.deadline": server.deadline is not None,
        "server.first": server.first is not None,
        "server.quorum": server.quorum is not None,
        "radio.loss.probability": loss.probability > 0,
        "radio.loss.outage_threshold": loss.outage_threshold is not None,
    }
    return [key for key, present in found.items() if present]
