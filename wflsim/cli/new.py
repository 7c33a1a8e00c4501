"""`wflsim new`: writes a starter scenario, or a policy of the user's own; complete, commented, running as it is."""

from __future__ import annotations

import re
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wflsim.errors import ScenarioError

TAKEN = ("Ask", "ClassVar", "Draw", "Gather", "Mapping", "Me", "Policy", "Rng", "Round", "Sequence", "State", "Step",
         "Tensor", "Vector")  # fmt: skip
"""Names that the toy policy uses itself."""
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


def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    policy: Annotated[
        bool, typer.Option("--policy", help="Write a policy of your own (a .py file) instead of a scenario.")
    ] = False,
) -> None:
    """Write a commented starter scenario that runs as it is; with --policy, a commented policy that does."""
    try:
        text = policy_text(file) if policy else scenario_text(file)
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise ScenarioError(f"{file} exists already; choose another name") from None
    except OSError as error:
        raise ScenarioError(f"cannot write {file}: {error.strerror or error}") from None
    if policy:
        use = f"policies: [{{name: ./{file.name}:{class_name(file)}, m: 6, tau: 10, eta: 0.1}}]"
        next_steps = f"wrote {file}\nput it into a scenario in the same folder:\n    {use}\nnext: wflsim check SCENARIO"
    else:
        next_steps = f"wrote {file}\nnext: wflsim check {file}\n      wflsim run {file}"
    Console().print(next_steps, markup=False, highlight=False, soft_wrap=True)


def scenario_text(file: Path) -> str:
    """The starter scenario, named after its file."""
    return STARTER.format(file=file, name=file.stem if file.stem.isprintable() else "starter")


def class_name(file: Path) -> str:
    """Name of the policy in a file: my_policy.py defines MyPolicy."""
    name = "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", file.stem))
    return name if name.isidentifier() and not iskeyword(name) and name not in TAKEN else "Mine"


def policy_text(file: Path) -> str:
    """The toy policy, its class and its file called as they will be."""
    if file.suffix != ".py":
        raise ScenarioError(f"{file}: a policy is a Python file; choose a name that ends in .py")
    from wflsim import testing  # brings torch

    toy = (Path(testing.__file__).parent / "toy.py").read_text(encoding="utf-8")
    called = re.sub(r"\bMine\b", class_name(file), toy)
    return called.replace("wflsim new --policy mine.py", f"wflsim new --policy {file.name}").replace(
        "./mine.py", f"./{file.name}"
    )
