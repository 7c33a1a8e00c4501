"""Files that a kill at any instant must leave whole: atomic writing, locks between processes, and seals.

A seal is the size and checksum of a finished file, noted in a JSON file that is written last and read first. A JSON
file with a seal holds its own content, `files` (name -> size and checksum of the files beside it) and `checksum`, which
covers all the rest of itself. Files made before there were seals have neither key.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from wflsim.errors import StoreError

FILES, CHECKSUM = "files", "checksum"
"""Keys that a seal adds to a JSON file."""


class Busy(StoreError):
    """Another process holds the folder."""


class Damaged(StoreError):
    """A file is not what it was when it was sealed, or cannot be read. The message names the file."""


@contextmanager
def locked(folder: Path, wait: bool = False, name: str = ".lock") -> Iterator[None]:
    """Hold a folder for this process (`wait`: as soon as it is free); the system frees it however the process ends."""
    lock = FileLock(folder / name)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise Busy(f"{folder} is in use by another wflsim run; wait for it, or use --out") from None
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def write(path: Path, content: str | bytes, through: bool = False) -> None:
    """Write a file atomically: whoever reads it meanwhile, or after a kill, sees the old content or the new one.

    `through`: only return when it is on the disk, so that it also survives a loss of power.
    """
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if through:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


def new_hash() -> Any:
    """The hash function of all seals; feed it with `update`."""
    return hashlib.blake2b(digest_size=16)


class Mark(NamedTuple):
    """Size in bytes and checksum of a file, or of the beginning of one that grows."""

    size: int
    checksum: str

    @classmethod
    def of(cls, body: bytes) -> Mark:
        """The mark of a file with this content."""
        hasher = new_hash()
        hasher.update(body)
        return cls(len(body), hasher.hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Mark:
        """The mark of a file; OSError if it cannot be read."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, new_hash)
            return cls(file.tell(), digest.hexdigest())


def write_sealed(content: Mapping[str, Any], files: Mapping[str, Mark]) -> str:
    """JSON text that holds the content and vouches for itself and for the files beside it."""
    body = {**content, FILES: {name: list(mark) for name, mark in files.items()}}
    return json.dumps({**body, CHECKSUM: _own_checksum(body)}, indent=1) + "\n"


def read_sealed(path: Path) -> tuple[dict[str, Any], dict[str, Mark] | None]:
    """The content of a sealed JSON file and its marks of other files; None for marks if it was never sealed."""
    try:
        held = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Damaged(f"{path} is not there") from None
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError):
        raise Damaged(f"{path} is damaged: it is not JSON any more") from None
    if not isinstance(held, dict):
        raise Damaged(f"{path} is damaged: it holds no mapping")
    if FILES not in held and CHECKSUM not in held:
        return held, None
    seal = held.pop(CHECKSUM, None)
    if seal != _own_checksum(held) or not isinstance(held.get(FILES), dict):
        raise Damaged(f"{path} is damaged: it does not match its own checksum")
    return held, {name: Mark(*mark) for name, mark in held.pop(FILES).items()}


def verify(path: Path, mark: Mark) -> None:
    """Raise `Damaged` unless the file has this size and checksum. Each state of a file is hashed once per process."""
    try:
        stat = path.stat()
        same = stat.st_size == mark.size and _hashed(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) == mark
    except FileNotFoundError:
        raise Damaged(f"{path} is not there any more") from None
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    if not same:
        raise Damaged(f"{path} is damaged: it is not what it was when it was finished")


@lru_cache(maxsize=100_000)
def _hashed(path: Path, size: int, changed_ns: int, number: int) -> Mark:
    """The file's mark; size, time of change and inode number are asked for only to tell its states apart."""
    return Mark.of_file(path)


def _own_checksum(body: Mapping[str, Any]) -> str:
    return Mark.of(json.dumps(body, sort_keys=True).encode()).checksum
