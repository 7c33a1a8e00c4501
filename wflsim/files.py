"""Files that several processes share, and that a kill at any instant must leave whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wflsim.errors import StoreError


class Busy(StoreError):
    """Another process holds the folder."""


@contextmanager
def locked(folder: Path, wait: bool = False, name: str = ".lock") -> Iterator[None]:
    """Hold a folder for this process; freed by the system however the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no advisory locks: there, two runs into one folder are the user's own risk
        yield
        return
    try:
        file = (folder / name).open("w")
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(f"{folder} is in use by another wflsim run; wait for it, or use --out") from None
        yield


def write(path: Path, text: str) -> None:
    """Beside and renamed: whoever reads sees the old file or the new one."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
