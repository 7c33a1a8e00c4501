"""Make scenarios/flash/hours.json: the messages of FLASH's first fifty phones that decide when each is available.

Run: python -m studies.flash_hours state_traces_first50.json (FLASH, PKU-Chengxu/FLASH@55cbede013, BSD-2). A phone is
available while it is idle, charging and on WiFi, so battery levels, repeated states, and the screen while it does not
charge on WiFi are left out. What is kept is word for word; `wflsim` reads the same windows from either file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "scenarios" / "flash" / "hours.json"
NETWORKS = ("wifi", "2g", "3g", "4g", "5g", "unknown")


def part_of(event: str) -> tuple[str, bool] | None:
    """Which part of a phone's state an event is about, and whether it is as training needs it; None for others."""
    if event.startswith("screen_"):
        return "idle", event in ("screen_off", "screen_lock")
    if event.startswith("battery_charged_"):
        return "charging", event == "battery_charged_on"
    return ("wifi", event == "wifi") if event in NETWORKS else None


def thinned(messages: str) -> str:
    """The messages of one phone that decide about its windows, with its first and its last one."""
    lines = messages.splitlines()
    kept, screen = {0, len(lines) - 1}, 0
    state: dict[str, bool] = {}
    for number, line in enumerate(lines):
        said = part_of(line.partition("\t")[2].strip().lower())
        if said is None or state.get(said[0]) == said[1]:
            continue
        state[said[0]] = said[1]
        plugged = state.get("charging", False) and state.get("wifi", False)
        if said[0] == "idle":
            screen = number
        if said[0] != "idle" or plugged:
            kept.add(number)
        if plugged and "idle" in state:
            kept.add(screen)  # the last word about the screen from before
    return "\n".join(lines[number] for number in sorted(kept))


def main() -> None:
    """Thin FLASH's file."""
    phones = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    thin = {name: {**phone, "messages": thinned(phone["messages"])} for name, phone in phones.items()}
    OUT.write_text(json.dumps(thin, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
