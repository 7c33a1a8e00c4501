"""The house rules of CONTRIBUTING.md that a program can check: sizes, docstrings and words."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = sorted((ROOT / "wflsim").rglob("*.py"))
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 300, 60, 7
FORBIDDEN = {
    r"\bsk(y|ies)\b": "channel",
    r"\bengines?\b": "pool, or gradients",
    r"\bcells?\b(?=.{0,20}\b(policy|policies|sweep|table)\b)": "run (of a sweep), entry (of a table)",
}
"""Words that had several meanings, each with the one to use instead (glossary in docs/architecture.md)."""
FORMER = {"--engine", "FormerEngine", "check_pool", "if engine is", "RENAMED", "cells.csv", "set_layout_engine"}
"""A line with one of these answers an old spelling with the new one, or calls a library that uses the word."""


@cache
def source(path: Path) -> tuple[str, ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def parameters(node: ast.FunctionDef) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([one for one in given if one.arg not in ("self", "cls")])


@cache
def documented_methods() -> set[str]:
    """Names of methods that some class describes: who implements one of them need not say it again."""
    found = set()
    for path in MODULES:
        for node in ast.walk(source(path)[1]):
            if isinstance(node, ast.ClassDef):
                found |= {each.name for each in functions(ast.Module(node.body, [])) if ast.get_docstring(each)}
    return found


def test_there_are_modules_to_check():
    assert len(MODULES) > 100


@pytest.mark.parametrize("folder", ["wflsim", "benchmarks"])
def test_no_module_is_too_long(folder):
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {name: lines for name, lines in sizes.items() if lines > MOST_LINES} == {}


def test_long_functions_and_long_parameter_lists_give_their_reason():
    """The reason is a comment on the line of the def."""
    bare = []
    for path in MODULES:
        text, tree = source(path)
        lines = text.splitlines()
        for node in functions(tree):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if (length > MOST_FUNCTION_LINES or parameters(node) > MOST_PARAMETERS) and "  # " not in lines[node.lineno - 1]:
                bare.append(f"{name_of(path)}:{node.lineno} {node.name}: {length} lines, {parameters(node)} parameters")
    assert bare == []


def test_every_module_class_and_public_function_has_a_docstring():
    bare = []
    for path in MODULES:
        _, tree = source(path)
        if not ast.get_docstring(tree):
            bare.append(name_of(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                if not ast.get_docstring(node):
                    bare.append(f"{name_of(path)}:{node.lineno} class {node.name}")
                for each in node.body:
                    if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and each.name not in documented_methods():
                        bare.append(f"{name_of(path)}:{each.lineno} {node.name}.{each.name}")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{name_of(path)}:{node.lineno} {node.name}")
    assert bare == []


@pytest.mark.parametrize("package", sorted(path.parent for path in MODULES if path.name == "__init__.py"), ids=name_of)
def test_a_package_says_what_it_is_for_what_to_import_and_where_to_begin(package):
    words = ast.get_docstring(source(package / "__init__.py")[1]) or ""
    if package.name == "wflsim":
        assert "wflsim.run" in words
        return
    assert len(words.split()) >= 30
    assert re.search(r"\b[Ii]mports?\b", words), "what may be imported from it"
    assert re.search(r"\bopen\b|\bOpen\b", words), "which file to open first"


def test_every_spec_field_is_described_where_it_stands():
    """The description becomes the scenario reference and the editor's tooltip, so a word or two do not do."""
    import wflsim.scenario  # noqa: F401  (so that all specs are defined)
    from wflsim.spec import Spec, _inherited_description

    def below(base: type[BaseModel]) -> set[type[BaseModel]]:
        return {each for sub in base.__subclasses__() for each in (sub, *below(sub))}

    short = [
        f"{spec.__module__}.{spec.__name__}.{key}: {text!r}"
        for spec in below(Spec) if spec.__module__.startswith("wflsim.") and not spec.__name__.startswith("_")
        for key, field in spec.model_fields.items()
        if key != "name" and len((text := field.description or _inherited_description(spec, key) or "").split()) < 2
    ]  # fmt: skip
    assert short == []


def test_words_with_several_meanings_are_not_used():
    found = []
    for path in [*MODULES, *(ROOT / "scenarios").rglob("*.yaml"), ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        if path.name == "architecture.md":  # its glossary names them
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word, instead in FORBIDDEN.items():
                if re.search(word, line) and not any(mark in line for mark in FORMER):
                    found.append(f"{name_of(path)}:{number}: {line.strip()} (write {instead})")
    assert found == []


def test_every_package_that_is_imported_is_declared():
    declared = {re.split(r"[<>=\[ ]", entry)[0].lower().replace("_", "-") for entry in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["ray"], *PROJECT["optional-dependencies"]["tune"]]}
    names = {"sklearn": "scikit-learn", "yaml": "pyyaml"}
    found = set()
    for path in MODULES:
        for node in ast.walk(source(path)[1]):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    strangers = found - set(sys.stdlib_module_names) - {"wflsim"}
    assert {names.get(name, name).replace("_", "-") for name in strangers} - declared == set()
    assert {"torch", "numpy", "filelock", "loky"} <= strangers
