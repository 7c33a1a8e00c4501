"""Availability from files: who was on when, measured elsewhere, as a plain CSV or in the layouts of FLASH and FedScale.

- `csv`: the header `client,start_s,end_s`, then one line per window, in any order of clients; seconds since the
  beginning of the run.
- `flash`: FLASH's JSON `{id: {messages: "YYYY-MM-DD hh:mm:ss <tab>event ..."}}`. A phone is on while its screen is off
  or locked, it charges and is on WiFi; what no event has said yet is taken as not so. Time counts from the earliest
  event in the file.
- `fedscale`: FedScale's JSON `{id: {duration, active: [s], inactive: [s], finish_time, model}}`, on from each `active`
  to the next `inactive`, the last to `finish_time`. Its original pickles are refused: opening one may run its code.

Before a device's first event it is off. After the last it is off, or with `loop` it starts over.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import count, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import model_validator

from wflsim.errors import ScenarioError
from wflsim.rng import stream
from wflsim.spec import InputFile, Spec, choices
from wflsim.world.fleet.hours import Listed, Window

HEADER = ["client", "start_s", "end_s"]
PICKLE = b"\x80"
"""First byte of a pickle of any protocol since 2."""

Layout = Annotated[
    Literal["csv", "flash", "fedscale"],
    choices(
        csv="lines of client,start_s,end_s",
        flash="FLASH's JSON of events; on means idle, charging and on WiFi",
        fedscale="FedScale's JSON of active and inactive seconds",
    ),
]


class FileHours(Spec):
    """Available as a file says, which holds the hours of real devices."""

    name: Literal["file"]
    file: InputFile
    """File with the windows of each device."""
    layout: Layout = "csv"
    """How the file is written; `wflsim list layout` describes each."""
    loop: bool = False
    """Whether each device's hours start over after its last event; otherwise it is off from then on."""
    draw: Literal["in_order", "with_replacement"] = "in_order"
    """How clients get their device: each the one of its own number (then the file must have enough of them), or each
    one drawn anew."""

    @model_validator(mode="after")
    def _readable(self) -> FileHours:
        try:
            read_hours(self.file, self.layout)
        except ScenarioError as error:
            raise ValueError(str(error)) from None
        return self


class DeviceHours(NamedTuple):
    """The windows of one device of a file."""

    windows: list[Window]
    end_s: float
    """Time at which its record ends."""


def hours_from_file(spec: FileHours, seed: int, client: int) -> Listed:
    """The hours of one client."""
    devices = read_hours(spec.file, spec.layout)
    if spec.draw == "with_replacement":
        place = int(stream(seed, "availability device", client).integers(len(devices)))
    elif client < len(devices):
        place = client
    else:
        raise ScenarioError(
            f"devices.availability.file {Path(spec.file).name} holds the hours of {len(devices)} devices, and client "
            f"{client} needs one more: lower clients, or write draw: with_replacement"
        )
    return Listed(_repeated(devices[place], spec.loop))


def _repeated(device: DeviceHours, loop: bool) -> Iterator[Window]:
    """The windows of a device, over and over if asked."""
    if loop and device.windows == [(0.0, device.end_s)]:
        yield 0.0, math.inf  # laps that touch, for ever
        return
    for lap in count() if loop and device.windows else [0]:
        for start_s, end_s in device.windows:
            yield start_s + lap * device.end_s, end_s + lap * device.end_s


def summary(spec: FileHours) -> str:
    """One line about a file: devices, hours, share on, longest gap, and what happens where it ends."""
    devices = read_hours(spec.file, spec.layout)
    on_s = sum(end_s - start_s for device in devices for start_s, end_s in device.windows)
    whole_s = sum(device.end_s for device in devices)
    gaps_s = [later[0] - earlier[1] for device in devices for earlier, later in pairwise(device.windows)]
    never = sum(not device.windows for device in devices)
    last = "each starts over at its end" if spec.loop else "each is off after its end (loop: true repeats it)"
    return (
        f"devices.availability.file {Path(spec.file).name}: {len(devices)} devices, "
        f"{max(device.end_s for device in devices) / 3600:.4g} h, on {on_s / whole_s if whole_s else 0:.1%} of the "
        f"time, {never} never, longest gap {max(gaps_s, default=0.0) / 3600:.3g} h; {last}"
    )


@lru_cache(maxsize=32)
def read_hours(file: str, layout: str) -> list[DeviceHours]:
    """The hours of all devices of a file, in its order; ScenarioError with file and line if it is malformed."""
    path = Path(file)
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror or error}") from error
    if body.startswith(PICKLE):
        raise ScenarioError(f"{path} is a pickle, and opening one may run its code: convert it to JSON")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path} is not text in UTF-8") from None
    devices = _from_csv(path, text) if layout == "csv" else _from_json(path, text, layout)
    if not devices:
        raise ScenarioError(f"{path} holds no device")
    return devices


def _from_csv(path: Path, text: str) -> list[DeviceHours]:
    rows = list(csv.reader(text.splitlines()))
    if not rows or [name.strip() for name in rows[0]] != HEADER:
        raise ScenarioError(f"{path}:1: the header must be {','.join(HEADER)}, got {rows[0] if rows else 'nothing'}")
    found: dict[str, list[Window]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            client, start_s, end_s = row[0].strip(), float(row[1]), float(row[2])
        except (ValueError, IndexError):
            raise ScenarioError(f"{path}:{line}: expected a client and two numbers of seconds, got {row}") from None
        if len(row) > len(HEADER) or not 0 <= start_s < end_s < math.inf:
            raise ScenarioError(f"{path}:{line}: a window must begin at 0 or later and end after that, got {row}")
        windows = found.setdefault(client, [])
        if windows and start_s < windows[-1][1]:
            raise ScenarioError(
                f"{path}:{line}: client {client} is on from {start_s:g} s, but was on until {windows[-1][1]:g} s "
                f"before: windows of a client must be in order and not overlap"
            )
        windows.append((start_s, end_s))
    return [DeviceHours(windows, windows[-1][1]) for windows in found.values()]


def _from_json(path: Path, text: str, layout: str) -> list[DeviceHours]:
    try:
        held = json.loads(text)
    except ValueError as error:
        raise ScenarioError(f"{path} is not JSON: {error}") from None
    if not isinstance(held, dict):
        raise ScenarioError(f"{path} must be a table of devices by id, got {type(held).__name__}")
    if layout == "fedscale":
        return [_fedscale(f"{path}: device {name}", entry) for name, entry in held.items()]
    events = {name: _flash_events(f"{path}: device {name}", entry) for name, entry in held.items()}
    begin_s = min((own[0][0] for own in events.values() if own), default=0.0)
    return [_flash(own, begin_s) for own in events.values()]


def _fedscale(where: str, entry: Any) -> DeviceHours:
    try:
        active, inactive = ([float(at_s) for at_s in entry[key]] for key in ("active", "inactive"))
        end_s = float(entry["finish_time"])
    except (TypeError, KeyError, ValueError) as error:
        raise ScenarioError(f"{where} needs lists active, inactive and finish_time in seconds: {error!r}") from None
    ends = [*inactive, end_s][: len(active)]
    instants = [instant for window in zip(active, ends, strict=False) for instant in window]
    if len(ends) < len(active) or any(later <= earlier for earlier, later in pairwise(instants)):
        given = f"{active[:3]} and {inactive[:3]}"
        raise ScenarioError(f"{where}: active and inactive must take turns and increase, got {given}")
    return DeviceHours(list(zip(active, ends, strict=True)), end_s)


def _flash_events(where: str, entry: Any) -> list[tuple[float, str]]:
    """(seconds, event) of every line of a device's messages."""
    messages = entry.get("messages") if isinstance(entry, dict) else None
    if not isinstance(messages, str):
        raise ScenarioError(f"{where} has no messages")
    events: list[tuple[float, str]] = []
    for line, said in enumerate(messages.splitlines(), start=1):
        when, _, event = said.partition("\t")
        try:
            at_s = (datetime.strptime(when.strip(), "%Y-%m-%d %H:%M:%S") - datetime(2000, 1, 1)).total_seconds()
        except ValueError:
            raise ScenarioError(f"{where}, message {line}: expected a date, a tab and an event, got {said!r}") from None
        if events and at_s < events[-1][0]:
            raise ScenarioError(f"{where}, message {line}: {when.strip()} is earlier than the message before")
        events.append((at_s, event.strip().lower()))
    return events


def _flash(events: list[tuple[float, str]], begin_s: float) -> DeviceHours:
    """The windows in which a phone is idle, charging and on WiFi."""
    state = {"idle": False, "charging": False, "wifi": False}
    windows: list[Window] = []
    since_s: float | None = None
    for at_s, event in events:
        if event.startswith("screen_"):
            state["idle"] = event in ("screen_off", "screen_lock")
        elif event.startswith("battery_charged_"):
            state["charging"] = event == "battery_charged_on"
        elif event in ("wifi", "2g", "3g", "4g", "5g", "unknown"):
            state["wifi"] = event == "wifi"
        if all(state.values()) and since_s is None:
            since_s = at_s - begin_s
        elif not all(state.values()) and since_s is not None:
            if at_s - begin_s > since_s:
                windows.append((since_s, at_s - begin_s))
            since_s = None
    end_s = events[-1][0] - begin_s if events else 0.0
    if since_s is not None and end_s > since_s:
        windows.append((since_s, end_s))
    return DeviceHours(windows, end_s)
