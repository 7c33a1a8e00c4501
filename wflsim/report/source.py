"""Folders as they are, whole, half-finished or damaged: what reports are made from."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from wflsim.analysis.tables import Results

WORLD = ("policy", "seed", "failed_orders", "failures", "dead_clients", "lifetime_rounds")


class Folder(Results):
    """A result folder of any kind, read as far as it goes. `missing` says in sentences what was not there."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder, strict=False)
        self.world = pd.DataFrame(columns=list(WORLD))
        """Failed orders and dead batteries of each run; filled in by whoever reads the legs."""
