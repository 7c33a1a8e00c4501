"""Code of the user's own: where it lies, which files belong to it, and how it is imported.

A scenario may name a torch module or a policy in a file beside it. Such a file is imported afresh from its own folder,
whatever else is called the same, and everything that it imports from outside the installed packages belongs to it: the
digests of results are made from all these files, so that changed code never passes for the old.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


class Place(NamedTuple):
    """Where a module lies: `file`, imported as `module` when the folder `root` comes first on Python's path."""

    file: Path
    root: Path
    module: str


def place_of(file: Path) -> Place:
    """The place of a file; in a package (a folder with __init__.py), its root is the folder that holds the package."""
    if not file.stem.isidentifier():  # my-policy.py: no import statement could name it, so it is in no package
        return Place(file, file.parent, re.sub(r"\W", "_", file.stem))
    root, parts = file.parent, [] if file.name == "__init__.py" else [file.stem]
    while (root / "__init__.py").is_file() and root != root.parent:
        root, parts = root.parent, [root.name, *parts]
    return Place(file, root, ".".join(parts))


def file_below(folder: Path, module: str) -> Path | None:
    """The file of the dotted `package.file` below a folder, if it is there."""
    place = folder.joinpath(*module.split("."))
    candidates = (place / "__init__.py", place.parent / f"{place.name}.py")
    try:
        return next((path for path in candidates if path.is_file()), None)
    except OSError:  # a name longer than the system allows
        return None


def importable(name: str) -> Place:
    """The place of `package.module:Class` on Python's path, found without running anything."""
    module = name.rpartition(":")[0]
    path, parts = None, module.split(".")
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path)
        if spec is None:
            raise ValueError(
                f"no module {'.'.join(parts[:count])!r} can be imported for {name!r}; install its package, or name a "
                f"file as ./file.py:{name.rpartition(':')[2]}"
            )
        path = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    if not spec or not spec.origin or not Path(spec.origin).is_file():
        raise ValueError(f"{module} has no source file")
    file = Path(spec.origin).resolve()
    levels = len(parts) if file.name == "__init__.py" else len(parts) - 1
    return Place(file, file.parents[levels], module)


def package_of(place: Place) -> str:
    """Name and version of the installed package that a file belongs to; empty for a file of the user's own."""
    if not installed(place.file):
        return ""
    names = packages_distributions().get(place.module.split(".")[0], [])
    return ", ".join(f"{name} {version(name)}" for name in sorted(set(names)))


def line_of(file: Path, name: str) -> int:
    """Line on which a file defines a name; 1 where that cannot be told."""
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node.lineno
    return 1


def installed(file: Path) -> bool:
    """Whether a file belongs to Python itself, to its installed packages, or to wflsim."""
    return any(file.is_relative_to(folder) for folder in _known_folders())


@cache
def _known_folders() -> list[Path]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parent)]
    return [Path(path).resolve() for path in paths]


def import_fresh(place: Place) -> ModuleType:
    """Import a file as it is now, with what it imports from its own folder. May raise whatever the file raises."""
    with _first_on_path(place):
        linecache.checkcache()
        if place.file.stem.isidentifier():
            return importlib.import_module(place.module)
        spec = spec_from_file_location(place.module, place.file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[place.module] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@contextmanager
def _first_on_path(place: Place) -> Iterator[None]:
    """Import from the place's root, as it is now, whatever else is called the same.

    Two scenarios of one process may each bring a `net.py`, and a notebook may change its own between two runs. So what
    Python knows under the names of the root's files is put aside meanwhile and restored, and no bytecode is left to be
    taken for new.
    """
    top, folder = place.module.split(".")[0], str(place.root)
    lying_there = {entry.removesuffix(".py") for entry in os.listdir(place.root)}
    known = {name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"wflsim", "__main__"}
    hidden = {top, *(name for name in known & lying_there if not _from_elsewhere(name))}
    aside = {name: module for name, module in list(sys.modules.items()) if name.split(".")[0] in hidden}
    for name in aside:
        del sys.modules[name]
    before = set(sys.modules)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes
        for name in set(sys.modules) - before:
            file = _file_of(sys.modules[name])
            of_root = file is not None and file.is_relative_to(place.root) and not installed(file)
            if of_root or name.split(".")[0] == top:
                del sys.modules[name]
        sys.modules.update(aside)


def _from_elsewhere(name: str) -> bool:
    """Whether an imported module is an installed one, which keeps its name."""
    file = _file_of(sys.modules[name]) if name in sys.modules else None
    return file is not None and installed(file)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None


def sources(place: Place) -> dict[str, Path]:
    """Module name -> file of all that a file imports, itself first, that is not installed; found without running it.

    An installed package is one thing: all its Python files belong to it.
    """
    if installed(place.file):
        top = place.root / place.module.split(".")[0]
        files = sorted(top.rglob("*.py")) if top.is_dir() else [place.file]
        return {str(file.relative_to(place.root)): file for file in files}
    importlib.invalidate_caches()
    found = {place.module: place.file}
    waiting = [place.module]
    while waiting:
        module = waiting.pop()
        for name in _imported_names(module, found[module]):
            for part, file in _files_of(name, place.root):
                if part not in found and not installed(file):
                    found[part] = file
                    waiting.append(part)
    return found


def _imported_names(module: str, file: Path) -> Iterator[str]:
    """Dotted names of the modules that a file may import; some of them may be names in a module."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return  # importing it will say what is wrong
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    yield ".".join(package)  # importing a part runs the __init__.py of its package
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _files_of(name: str, root: Path) -> Iterator[tuple[str, Path]]:
    """The files of a dotted module and of the packages around it, as far as there are any."""
    path: list[str] | None = [str(root), *sys.path]
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names or parts[0] == "wflsim":
        return
    for count in range(1, len(parts) + 1):
        part = ".".join(parts[:count])
        spec: ModuleSpec | None = PathFinder.find_spec(part, path) if part else None
        if spec is None:
            return
        if spec.origin and Path(spec.origin).suffix == ".py":
            yield part, Path(spec.origin).resolve()
        if spec.submodule_search_locations is None:
            return
        path = list(spec.submodule_search_locations)


def content(files: dict[str, Path]) -> dict[str, str]:
    """Module name -> digest of the content of its file."""
    return {name: blake2b(file.read_bytes(), digest_size=16).hexdigest() for name, file in sorted(files.items())}


def where(error: BaseException, files: Collection[Path]) -> str | None:
    """`file:line` at which an error arose in these files, as deep as it goes; None if it did not pass through them."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    named = {str(file) for file in files}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in named]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def said(error: BaseException) -> str:
    """Type and first line of an error: the text alone may be nothing but the key of a KeyError."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    lines = text.splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"
