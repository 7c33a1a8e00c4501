"""Pages of the command line, from its parser, of the public Python names, and of the errors."""

from __future__ import annotations

from typing import Any

import typer.main

import wflsim
from wflsim import errors
from wflsim.cli.main import app
from wflsim_reference.markdown import code, docstring, prose, table

EXIT_CODES = table(
    ["exit code", "meaning"],
    [
        ["0", "It worked."],
        ["1", "Something went wrong while running; the message says what and how to go on."],
        ["2", "What the user wrote cannot be run: the scenario, an option or an argument."],
        ["130", "Interrupted with Ctrl-C; the same command goes on."],
    ],
)


def commands() -> dict[str, Any]:
    """The commands by name."""
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def pages() -> dict[str, str]:
    """The command line, the Python API and the errors."""
    return {"command_line.md": _command_line(), "python.md": _python(), "errors.md": _errors()}


def _command_line() -> str:
    parts = ["# Command line\n", prose(app.info.help or "") + "\n", EXIT_CODES]
    for name, command in commands().items():
        shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        rows = [[code(_spelling(one)), prose(_help(one)), _default(one)] for one in shown]
        arguments = " ".join(_spelling(one) for one in shown if _is_argument(one))
        parts += [
            f"## wflsim {name}\n",
            f"```text\nwflsim {name} {arguments} [OPTIONS]\n```\n",
            prose(command.help or "") + "\n",
            table(["argument or option", "meaning", "default"], rows),
        ]
    return "\n".join(parts)


def _is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def _spelling(parameter: Any) -> str:
    if _is_argument(parameter):
        return str(parameter.metavar or parameter.name.upper())
    value = "" if parameter.is_flag else f" {parameter.metavar or _kind(parameter)}"
    return ", ".join([*parameter.opts, *parameter.secondary_opts]) + value


def _kind(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    return {"int": "INTEGER", "float": "NUMBER", "Path": "PATH"}.get(getattr(annotation, "__name__", ""), "TEXT")


def _help(parameter: Any) -> str:
    return str(getattr(parameter, "help", "") or "")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    return "" if value is None or value is False or callable(value) or not str(value) else code(str(value))


def _python() -> str:
    parts = [
        "# Python\n",
        docstring(wflsim.__doc__ or ""),
        "\nThese are all public names. Everything else may change without notice.\n",
    ]
    for name in wflsim.__all__:
        if name.startswith("__"):
            continue
        kind = "autoclass" if isinstance(getattr(wflsim, name), type) else "autofunction"
        options = ":members:\n:inherited-members:\n" if name.endswith("Results") else ""
        body = f".. {kind}:: wflsim.{name}\n" + "".join(f"   {line}\n" for line in options.splitlines())
        parts.append(f"## {name}\n\n```{{eval-rst}}\n{body}```\n")
    return "\n".join(parts)


def error_classes() -> list[type[Exception]]:
    """Every error that wflsim raises on purpose, the root first."""
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WflsimError)]


def _errors() -> str:
    rows = [
        [code(kind.__name__), prose(" ".join((kind.__doc__ or "").split())),
         "2" if issubclass(kind, errors.ScenarioError) else "1"]
        for kind in error_classes()
    ]  # fmt: skip
    return "\n".join(
        ["# Errors\n", docstring(errors.__doc__ or ""), table(["error", "meaning", "exit code of the command"], rows),
         "\nImport them from `wflsim.errors`. A message says where, what was given, what is allowed and what to do.\n"]
    )  # fmt: skip


def undescribed() -> list[str]:
    """Commands, arguments, options and errors without a description."""
    found = [f"wflsim {name}" for name, command in commands().items() if not command.help]
    found += [
        f"wflsim {name} {_spelling(one)}"
        for name, command in commands().items()
        for one in command.params
        if not getattr(one, "hidden", False) and not _help(one)
    ]
    return found + [kind.__name__ for kind in error_classes() if not kind.__doc__]
