"""Resume without pickling time: SimPy is never saved.

Saved are the learning state, the client memories and replies under way, and how long the tables were. Resuming
replays the world over the trace prefix, which is fast and deterministic, and then goes on training.
"""

from __future__ import annotations

import io
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from wflsim.files import Damaged, Mark, write

NAME = "checkpoint.pt"
INTERVAL_S = 20.0
"""Least seconds of training between two saved learning states."""
_DIGEST_BYTES = 32


class Checkpoint(NamedTuple):
    """Where a run stood after `rounds` rounds."""

    rounds: int
    marks: dict[str, Mark]
    """What the run's tables held then; empty in the store, which has none."""
    learning: dict[str, Any]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Save a checkpoint with its checksum; a kill or a loss of power leaves the old one or the new one."""
    import torch  # here and below only: a replay writes tables through this module and must not wait for torch

    buffer = io.BytesIO()
    marks = {name: list(mark) for name, mark in checkpoint.marks.items()}
    torch.save({**checkpoint._asdict(), "marks": marks}, buffer)
    body = buffer.getvalue()
    write(path, blake2b(body, digest_size=_DIGEST_BYTES).digest() + body, through=True)


def load(path: Path) -> Checkpoint | None:
    """The checkpoint at `path`; None if there is none. A corrupt or foreign file is refused, not guessed at."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise Damaged(f"{path} is corrupt or not a checkpoint of wflsim")
    import torch

    fields: dict[str, Any] = torch.load(io.BytesIO(body), weights_only=True)
    try:
        marks = {name: Mark(*mark) for name, mark in fields["marks"].items()}
        return Checkpoint(fields["rounds"], marks, fields["learning"])
    except (KeyError, TypeError, AttributeError):
        raise Damaged(f"{path} was made by another version of wflsim") from None


def forget(path: Path) -> None:
    """Remove a checkpoint that is of no use any more; if it cannot be removed, its marks will be found to be wrong."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
