"""`wflsim new`, and the starter scenario that it writes: complete, commented, and it runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wflsim.errors import ScenarioError

STARTER = """\
# A wflsim scenario. `wflsim check {file}` says what it would do, `wflsim run {file}` does it.
# Quantities take units (10 MHz, 20 dBm, -5 dB, 30 min) or are plain SI numbers. `wflsim list` shows the choices.
name: {name}
clients: 10
seeds: 3                      # Monte-Carlo runs, or a list such as [0, 1, 2]

# What is learnt
data: {{name: digits}}          # real 8x8 handwriting, bundled
partition:
  alpha: 0.3                  # Dirichlet class mix: small = each client sees few classes
  sigma: 0.3                  # Zipf sizes: 0 = all clients hold equally much
model: {{name: linear}}
train: {{batch: 32}}

# Who decides: every policy gets the same clients, batches and channel
policies:
  - {{name: fedavg, m: 6, tau: 10, eta: 0.1}}                # m clients per round, tau local steps
  - {{name: drdm, m: 6, tau: 10, eta: 0.1, mu: 0.5}}

# Behind which radio, with which processors
radio:
  snr: 10 dB
  bandwidth: 1 MHz            # per client
  power: 100 mW
devices:
  frequency: 1 GHz
  cycles_per_sample: 1e6

# When a run ends: whichever comes first
stop:
  rounds: 60
  target: {{metric: worst, accuracy: 0.8, window: 20}}   # the mean over 20 rounds: one lucky round does not count
"""


def new(file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")]) -> None:
    """Write a commented starter scenario that runs as it is."""
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(STARTER.format(file=file, name=file.stem if file.stem.isprintable() else "starter"))
    except FileExistsError:
        raise ScenarioError(f"{file} exists already; choose another name") from None
    except OSError as error:
        raise ScenarioError(f"cannot write {file}: {error.strerror or error}") from None
    next_steps = f"wrote {file}\nnext: wflsim check {file}\n      wflsim run {file}"
    Console().print(next_steps, markup=False, highlight=False)
