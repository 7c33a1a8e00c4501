"""What a megabit costs by radiated power, 0 to 23 dBm, with every named modem: one upload in a world for each point.

    python -m studies.power_sweep

writes reports/world/power_sweep.csv and power_sweep.png. A client alone on 1 MHz sends a megabit over a constant path
loss, at Shannon's rate; its processor idles for nothing, so the joules are the modem's while it sends, without waking
and tail. Little power sends slowly and pays the modem's circuit for long, much power is turned into heat by its
amplifier: in between lies the least. A modem's curve ends at its limit, above which the program refuses the power.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.optimize import brentq

from wflsim.exchange import Order
from wflsim.units import db_to_ratio, dbm_to_w, ratio_to_db
from wflsim.world.channel.channel import noise_w
from wflsim.world.fleet.modem import MODEMS
from wflsim.world.world import World, WorldSpec

OUT = Path(__file__).resolve().parents[1] / "reports" / "world"
GAINS_PER_W = (1000.0, 10.0)
"""SNR on 1 MHz per radiated watt: 20 dB and 0 dB at 20 dBm."""
DBM = np.arange(0, 23.01, 0.25)
MEGABIT = 1_000_000
BAND_HZ, NOISE_FIGURE = 1e6, db_to_ratio(5.0)
COLOURS = plt.get_cmap("tab10").colors  # type: ignore[attr-defined]


def upload(modem: str, radiated_w: float, gain_per_w: float) -> tuple[float, float]:
    """Seconds and joules that one megabit takes in a world whose SNR is gain_per_w x radiated_w."""
    loss_db = -ratio_to_db(gain_per_w * noise_w(BAND_HZ, NOISE_FIGURE, 1.0))
    blocks = {
        "radio": {
            "path_loss": {"name": "log_distance", "at_1km_db": loss_db, "sigma_db": 0}, "bandwidth": BAND_HZ,
            "power": radiated_w, "noise_figure": f"{NOISE_FIGURE} linear",
        },
        "cell": {"radius": 2000.0, "distances": [1000.0]},
        "devices": {"modem": modem},
    }  # fmt: skip
    world = World(WorldSpec.model_validate(blocks), 1, 0)
    world.gather([Order(0, 0, 0, 0, 0, 0, MEGABIT, 0, 0, 0)], None)
    (leg,) = [leg for leg in world.take_legs() if leg.activity == "transmit" and leg.attempts]
    return leg.end_s - leg.start_s, leg.energy_j


def linear_optimum_w(modem: str, gain_per_w: float) -> float:
    """Radiated power in watts at which a bit costs a linear amplifier least: (1+s)ln(1+s) - s = P_c eta g, s = g p."""
    keys = MODEMS[modem]
    due = keys["circuit_power"] * keys["amplifier_efficiency"] * gain_per_w
    return float(brentq(lambda s: (1 + s) * math.log1p(s) - s - due, 0, 1e9)) / gain_per_w


def most_dbm(modem: str) -> float:
    """The greatest power in dBm that a modem can radiate, at most the sweep's; 0.2 W counts as 23 dBm."""
    most_w = MODEMS[modem].get("max_power")
    return 23.0 if most_w is None else round(ratio_to_db(most_w / 1e-3), 1)


def table() -> pd.DataFrame:
    """A line per channel, modem and radiated power up to the modem's limit."""
    rows = []
    for gain_per_w in GAINS_PER_W:
        for modem in MODEMS:
            for dbm in DBM[most_dbm(modem) + 1e-9 >= DBM]:
                took_s, joules = upload(modem, dbm_to_w(float(dbm)), gain_per_w)
                rows.append({
                    "gain_per_w": gain_per_w, "modem": modem, "radiated_dbm": float(dbm), "mbit_per_s": 1 / took_s,
                    "j_per_mbit": joules,
                })  # fmt: skip
    return pd.DataFrame(rows)


def least(found: pd.DataFrame) -> pd.DataFrame:
    """The cheapest power of each modem on each channel, and whether it lies inside the sweep of that modem."""
    rows = found.loc[found.groupby(["gain_per_w", "modem"], sort=False)["j_per_mbit"].idxmin()]
    limits = rows["modem"].map(most_dbm)
    return rows.assign(inside=(rows["radiated_dbm"] > 0) & (rows["radiated_dbm"] < np.floor(limits / 0.25) * 0.25))


def draw(axes: Axes, found: pd.DataFrame, gain_per_w: float) -> None:
    """The curves of all modems on one channel, with a mark where each is least."""
    best = least(found)
    for modem, colour in zip(MODEMS, COLOURS, strict=True):
        mine = found[(found["modem"] == modem) & (found["gain_per_w"] == gain_per_w)]
        axes.plot(mine["radiated_dbm"], mine["j_per_mbit"], color=colour, lw=2, label=modem)
        (mark,) = best[(best["modem"] == modem) & (best["gain_per_w"] == gain_per_w)].to_dict("records")
        face = colour if mark["inside"] else "white"
        over = 5 if modem == "wifi_nic" else 3
        axes.plot(mark["radiated_dbm"], mark["j_per_mbit"], "o", mfc=face, mec=colour, ms=7, zorder=over)
    snr_db = ratio_to_db(gain_per_w * dbm_to_w(20))
    axes.set(
        xlabel="radiated power in dBm", yscale="log", xlim=(-0.5, 23.5),
        title=f"SNR of {abs(snr_db):.0f} dB on 1 MHz at 20 dBm ({gain_per_w:g} per W)",
    )  # fmt: skip
    axes.grid(alpha=0.25, which="both")
    axes.spines[["top", "right"]].set_visible(False)


def picture(found: pd.DataFrame, path: Path) -> None:
    """Both channels side by side: filled marks are optima inside a modem's range, hollow ones lie at its ends."""
    figure, panels = plt.subplots(1, 2, figsize=(13.5, 5.6), sharey=True, constrained_layout=True)
    for axes, gain_per_w in zip(panels, GAINS_PER_W, strict=True):
        draw(axes, found, gain_per_w)
    optimum_mw = 1e3 * linear_optimum_w("wifi_nic", GAINS_PER_W[0])
    panels[0].axvline(ratio_to_db(optimum_mw), color="#888", lw=1, ls="--")
    panels[0].annotate(
        f"wifi_nic: {optimum_mw:.1f} mW by\n$(1+s)\\ln(1+s)-s = P_c\\,\\eta\\,g,\\ s=g\\,p$",
        (ratio_to_db(optimum_mw), 0.0012), xytext=(-6, 0), textcoords="offset points", color="#444", fontsize=9,
        ha="right",
    )  # fmt: skip
    panels[0].set_ylabel("joules of the sending modem per megabit")
    panels[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=110)


def main() -> None:
    """Write the table and the figure, and print the optima."""
    OUT.mkdir(parents=True, exist_ok=True)
    found = table()
    found.to_csv(OUT / "power_sweep.csv", index=False, float_format="%.6g")
    picture(found, OUT / "power_sweep.png")
    print(least(found).to_string(index=False))


if __name__ == "__main__":
    main()
