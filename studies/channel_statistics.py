"""Do the generated channels have the statistics that theory gives them? Three checks, one picture.

Run: python -m studies.channel_statistics; writes reports/world/channel.png.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import i0e, j0

from wflsim.world.channel.fading import Fading, Rayleigh, Rician
from wflsim.world.channel.path_loss import GaussianField

PICTURE = Path("reports/world/channel.png")
CARRIER_HZ = 2e9
MEASURED, THEORY = "#1b6ca8", "#c8553d"


def autocorrelation(axes: Axes) -> None:
    """Scattered waves: E h(t) h*(t + lag) = J0(2 pi f_D lag)."""
    fading = Fading(Rayleigh(name="rayleigh", speed=10 / 3), CARRIER_HZ, 0, "up")
    lags_s = np.linspace(0, 3 / fading.doppler_hz, 91)
    clients, origins_s = 1000, np.arange(20) * 97.0
    found = np.zeros(len(lags_s))
    for client in range(clients):
        real, imaginary = fading.amplitude(client, np.add.outer(origins_s, lags_s))
        found += np.mean(real * real[:, :1] + imaginary * imaginary[:, :1], axis=0)
    x = lags_s * fading.doppler_hz
    axes.plot(x, j0(2 * np.pi * x), color=THEORY, lw=2, label="theory: $J_0(2\\pi f_D t)$")
    axes.plot(x, found / clients, ".", color=MEASURED, ms=5, label=f"{clients} clients, {len(origins_s)} instants each")
    error = np.abs(found / clients - j0(2 * np.pi * x)).max()
    axes.set(xlabel="lag $t f_D$", ylabel="autocorrelation of $h$", title=f"Jakes: largest deviation {error:.3f}")


def power(axes: Axes) -> None:
    """Density of |h|^2 for Rayleigh and Rician fading."""
    gain = np.linspace(1e-3, 4, 300)
    titles = []
    for k_db, colour in ((None, "#1b6ca8"), (6.0, "#2d936c"), (12.0, "#8e5572")):
        k = 0.0 if k_db is None else 10 ** (k_db / 10)
        spec = Rayleigh(name="rayleigh", speed=30) if k_db is None else Rician(name="rician", k=f"{k_db} dB", speed=30)
        fading = Fading(spec, CARRIER_HZ, 1, "up")
        found = np.concatenate([fading.gain(client, np.linspace(0, 50, 500)) for client in range(200)])
        name = "Rayleigh" if k_db is None else f"Rician, K = {k_db:g} dB"
        axes.hist(found, bins=np.linspace(0, 4, 81), density=True, color=colour, alpha=0.35, label=name)
        bessel = 2 * np.sqrt(k * (1 + k) * gain)
        axes.plot(gain, (1 + k) * np.exp(bessel - k - (1 + k) * gain) * i0e(bessel), color=colour, lw=2)
        if k_db is not None:
            titles.append(f"{k_db:g} dB → {10 * math.log10(rice_factor(found)):.2f} dB")
    axes.set(xlabel="$|h|^2$", ylabel="density", title="K from moments: " + ", ".join(titles), xlim=(0, 4))


def rice_factor(power: np.ndarray) -> float:
    """K by the moment method: var|h|^2 / (E|h|^2)^2 = (2K+1)/(K+1)^2."""
    root = math.sqrt(1 - power.var() / power.mean() ** 2)
    return root / (1 - root)


def shadow(axes: Axes) -> None:
    """Shadowing: exp(-distance/d) in every direction."""
    rng = np.random.Generator(np.random.Philox(1))
    apart_m = np.linspace(0, 150, 31)
    for correlation_m, colour in ((13.0, "#2d936c"), (50.0, MEASURED)):
        found = np.zeros(len(apart_m))
        landscapes = 1500
        for seed in range(landscapes):
            land = GaussianField(seed, "shadow", correlation_m)
            x, y = rng.uniform(-3000, 3000, (2, 20))
            angle = rng.uniform(0, 2 * np.pi, 20)
            here = land.value_at(x, y)
            for i, d in enumerate(apart_m):
                found[i] += np.mean(here * land.value_at(x + d * np.cos(angle), y + d * np.sin(angle))) / landscapes
        axes.plot(apart_m, np.exp(-apart_m / correlation_m), color=THEORY, lw=2)
        axes.plot(apart_m, found, "o", color=colour, ms=4, label=f"d = {correlation_m:g} m")
    axes.set(xlabel="distance in m", ylabel="correlation of the shadow", title="Shadowing against exp(-distance/d)")


def main() -> None:
    """Draw all three."""
    figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), constrained_layout=True)
    for draw, panel in zip((autocorrelation, power, shadow), axes, strict=True):
        draw(panel)
        panel.legend(frameon=False)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
