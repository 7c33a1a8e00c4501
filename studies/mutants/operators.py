"""The kinds of errors: every small change of one source file, as an edit of a few bytes; the rest stays as it is."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARE = {"<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="],
           "is": ["is not"], "is not": ["is"], "in": ["not in"], "not in": ["in"]}  # fmt: skip
SYMBOLS: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.And: "and", ast.Or: "or",
}  # fmt: skip
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "&": "|", "|": "&"}
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin",
         "any": "all", "all": "any", "floor": "ceil", "ceil": "floor", "log10": "log", "log": "log10", "log1p": "log",
         "log2": "log", "sin": "cos", "cos": "sin", "sum": "max", "mean": "sum", "median": "mean", "std": "var",
         "cumsum": "cumprod", "append": "appendleft", "popleft": "pop", "lower": "upper",
         "startswith": "endswith"}  # fmt: skip
QUIET_KEYWORDS = {"strict", "encoding", "exist_ok", "parents", "stacklevel", "help", "default_factory", "mode", "alias"}
"""Keyword arguments whose removal seldom shows in a number."""
NUMBER = r"(float|int|Floats|Vector|Tensor|NDArray\[np\.float64\]|Joules|Seconds)"
OPTION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


@dataclass(frozen=True)
class Mutation:
    """One change of one file: bytes `start` to `end` become `after`."""

    operator: str
    function: str
    """Dotted name of the function or class it stands in, empty at module level."""
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


def candidates(source: bytes) -> list[Mutation]:
    """Every change, in the order of the file; a few do not parse or are the same program: ask `is_another_program`."""
    found: dict[tuple[int, int, str], Mutation] = {}
    for mutation in _Walker(source).walk(ast.parse(source)):
        found.setdefault((mutation.start, mutation.end, mutation.after), mutation)
    return sorted(found.values(), key=lambda mutation: (mutation.start, mutation.end, mutation.after))


def is_another_program(source: bytes, mutation: Mutation) -> bool:
    """Whether the changed file parses, and to something else."""
    try:
        return ast.dump(ast.parse(mutation.apply(source))) != ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return False


class _Walker:
    """Walks a tree with the byte offsets of its nodes, and knows in which function it is."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._names: list[str] = []
        self._returns: list[str] = []

    def walk(self, node: ast.AST) -> Iterator[Mutation]:
        """What can be changed at this node, then below it."""
        if _left_alone(node):
            return
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._names.append(node.name)
            self._returns.append(
                "" if isinstance(node, ast.ClassDef) or not node.returns else ast.unparse(node.returns)
            )
        yield from self._here(node)
        if isinstance(node, ast.JoinedStr):  # Python 3.11 gives no usable positions inside: read the braces ourselves
            yield from self._fields(node)
        else:
            for name, value in ast.iter_fields(node):
                if name in ("annotation", "returns", "decorator_list", "type_comment", "format_spec"):
                    continue
                children = value if isinstance(value, list) else [value]
                for child in children:
                    if isinstance(child, ast.AST) and not _is_text(node, child):
                        yield from self.walk(child)
        if named:
            self._names.pop()
            self._returns.pop()

    def _here(self, node: ast.AST) -> Iterator[Mutation]:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            yield from handler(node)
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            test = node.test
            yield self._edit("condition", test, "False")
            if not isinstance(node, ast.While):
                yield self._edit("condition", test, "True")
                yield self._edit("negate", test, f"(not ({self._text(test)}))")
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield self._edit("condition", test, "True")

    # --- expressions
    def _compare(self, node: ast.Compare) -> Iterator[Mutation]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            symbol = SYMBOLS[type(operator)]
            for other in COMPARE[symbol]:
                yield from self._between("compare", left, right, symbol, other)
            left = right

    def _binop(self, node: ast.BinOp) -> Iterator[Mutation]:
        symbol = SYMBOLS.get(type(node.op))
        text = any(
            isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or _is_string(part)
            for part in (node.left, node.right)
        )
        types = symbol == "|" and not isinstance(node.right, ast.Call | ast.Compare)
        if symbol in ARITHMETIC and not text and not types:
            yield from self._between("arithmetic", node.left, node.right, symbol, ARITHMETIC[symbol])
            if symbol in ("-", "/", "//", "**", "%"):
                swapped = f"({self._text(node.right)}) {symbol} ({self._text(node.left)})"
                yield self._edit("operands swapped", node, f"({swapped})")

    def _boolop(self, node: ast.BoolOp) -> Iterator[Mutation]:
        symbol = SYMBOLS[type(node.op)]
        other = "or" if symbol == "and" else "and"
        for index in range(len(node.values) - 1):
            yield from self._between("boolean", node.values[index], node.values[index + 1], symbol, other)
        for index in range(len(node.values)):
            kept = [f"({self._text(value)})" for number, value in enumerate(node.values) if number != index]
            yield self._edit("condition dropped", node, f"({f' {symbol} '.join(kept)})")

    def _unaryop(self, node: ast.UnaryOp) -> Iterator[Mutation]:
        if isinstance(node.op, ast.Not | ast.USub):
            yield self._edit("sign dropped", node, f"({self._text(node.operand)})")

    def _constant(self, node: ast.Constant) -> Iterator[Mutation]:
        value = node.value
        if isinstance(value, bool):
            yield self._edit("constant", node, str(not value))
        elif isinstance(value, int):
            for other in {value + 1, value - 1, value * 2} - {value}:
                yield self._edit("constant", node, f"({other})" if other < 0 else str(other))
        elif isinstance(value, float):
            for near in {value * 2, value + 1, value * 1.1} - {value}:
                yield self._edit("constant", node, repr(near))
        elif isinstance(value, str) and OPTION.fullmatch(value) and len(value) <= 30:
            yield self._edit("option text", node, repr(value + "_"))

    def _call(self, node: ast.Call) -> Iterator[Mutation]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CALLS:
            end = self._span(node.func)[1]
            yield self._bytes("function swapped", node, end - len(name.encode()), end, CALLS[name])
        positional = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        if len(positional) == len(node.args) and name not in ("isinstance", "getattr", "hasattr", "Annotated"):
            yield from self._swaps("arguments swapped", node.args)
        for keyword in node.keywords:
            if keyword.arg and keyword.arg not in QUIET_KEYWORDS:
                start, end = self._span(keyword)
                comma = re.compile(rb"\s*,").match(self._source, end)
                yield self._bytes("argument dropped", keyword, start, comma.end() if comma else end, "")

    def _subscript(self, node: ast.Subscript) -> Iterator[Mutation]:
        index = node.slice
        if isinstance(index, ast.Slice):
            for part in (index.lower, index.upper):
                if part is not None:
                    yield self._edit("slice", part, "")
                    if not isinstance(part, ast.Constant):
                        yield self._edit("slice", part, f"({self._text(part)}) + 1")
        elif isinstance(index, ast.BinOp):
            yield self._edit("index", index, f"({self._text(index)}) + 1")

    def _dict(self, node: ast.Dict) -> Iterator[Mutation]:
        if None not in node.keys:
            yield from self._swaps("values swapped", node.values)

    # --- statements
    def _return(self, node: ast.Return) -> Iterator[Mutation]:
        if node.value is None:
            return
        text, declared = self._text(node.value), self._returns[-1] if self._returns else ""
        if isinstance(node.value, ast.Tuple):
            yield from self._swaps("values swapped", node.value.elts)
        if re.fullmatch(NUMBER, declared):
            yield self._edit("returned value", node.value, f"({text}) + 1")
            yield self._edit("returned value", node.value, f"({text}) * 2")
        elif declared == "bool":
            yield self._edit("returned value", node.value, f"not ({text})")
        elif declared.endswith("| None") and text != "None":
            yield self._edit("returned value", node.value, "None")
        elif declared.startswith(("list", "Sequence", "tuple[int, ...]")):
            yield self._edit("returned value", node.value, f"({text})[:-1]")

    def _assign(self, node: ast.Assign) -> Iterator[Mutation]:
        if isinstance(node.value, ast.Tuple):
            yield from self._swaps("values swapped", node.value.elts)
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and all(isinstance(name, ast.Name | ast.Attribute) for name in target.elts):
            yield from self._swaps("values swapped", target.elts)
        if isinstance(target, ast.Attribute | ast.Subscript) and "__init__" not in self._names:
            yield self._edit("statement removed", node, "pass")

    def _annassign(self, node: ast.AnnAssign) -> Iterator[Mutation]:
        """A default of an option becomes another of the values that its type allows."""
        if node.value is None or not _is_string(node.value):
            return
        for part in ast.walk(node.annotation):
            if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
                choices = [choice.value for choice in ast.walk(part.slice) if isinstance(choice, ast.Constant)]
                for other in choices:
                    yield self._edit("default", node.value, repr(other))

    def _augassign(self, node: ast.AugAssign) -> Iterator[Mutation]:
        symbol = SYMBOLS.get(type(node.op))
        if symbol in ("+", "-", "*", "/"):
            yield from self._between("arithmetic", node.target, node.value, f"{symbol}=", f"{ARITHMETIC[symbol]}=")
        yield self._edit("statement removed", node, "pass")

    def _expr(self, node: ast.Expr) -> Iterator[Mutation]:
        if not isinstance(node.value, ast.Constant):
            yield self._edit("statement removed", node, "pass")

    def _raise(self, node: ast.Raise) -> Iterator[Mutation]:
        yield self._edit("statement removed", node, "pass")

    def _continue(self, node: ast.Continue) -> Iterator[Mutation]:
        yield self._edit("statement removed", node, "pass")
        yield self._edit("continue or break", node, "break")

    def _break(self, node: ast.Break) -> Iterator[Mutation]:
        yield self._edit("statement removed", node, "pass")

    def _if(self, node: ast.If) -> Iterator[Mutation]:
        if not node.orelse and isinstance(node.body[-1], ast.Return) and len(node.body) == 1:
            yield self._edit("statement removed", node.body[0], "pass")

    # --- f-strings
    def _fields(self, node: ast.JoinedStr) -> Iterator[Mutation]:
        """Two numbers of a sentence change places; below, whatever is computed inside the braces."""
        start, end = self._span(node)
        fields = list(_braces(self._source[start:end].decode(), start, self._source))
        for (a, b, a_format), (c, d, c_format) in itertools.pairwise(fields):
            first, second = self._source[a:b].decode(), self._source[c:d].decode()
            if a_format == c_format and first != second:
                between = self._source[b:c].decode()
                yield self._bytes("values swapped", node, a, d, second + between + first)
        for a, b, _ in fields:
            try:
                inner = ast.parse(self._source[a:b].decode().strip(), mode="eval")
            except SyntaxError:
                continue
            text = self._source[a:b]
            offset = a + len(text) - len(text.lstrip())
            quotes = self._source[start:end].lstrip(b"frFR")[:1].decode()
            below = _Walker(text.strip())
            below._names, below._returns = self._names, self._returns
            for mutation in below.walk(inner.body):
                if quotes not in mutation.after and "\\" not in mutation.after:
                    yield self._bytes(
                        mutation.operator, node, mutation.start + offset, mutation.end + offset, mutation.after
                    )

    # --- edits
    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._line_starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._line_starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _edit(self, operator: str, node: ast.AST, after: str) -> Mutation:
        return self._bytes(operator, node, *self._span(node), after)

    def _bytes(self, operator: str, node: ast.AST, start: int, end: int, after: str) -> Mutation:
        line = self._source.count(b"\n", 0, start) + 1
        return Mutation(operator, ".".join(self._names), line, start, end, self._source[start:end].decode(), after)

    def _between(self, operator: str, left: ast.AST, right: ast.AST, symbol: str, other: str) -> Iterator[Mutation]:
        """The symbol between two nodes; parentheses and line ends may stand there too."""
        start, end = self._span(left)[1], self._span(right)[0]
        pattern = r"\s+".join(re.escape(word) for word in symbol.split())
        if symbol[0].isalpha():
            pattern = rf"\b{pattern}\b"
        place = re.search(pattern.encode(), self._source[start:end])
        if place:
            yield self._bytes(operator, left, start + place.start(), start + place.end(), other)

    def _swaps(self, operator: str, nodes: list[ast.expr]) -> Iterator[Mutation]:
        """Each two neighbours change places."""
        for first, second in itertools.pairwise(nodes):
            a, b = self._span(first)
            c, d = self._span(second)
            if self._source[a:b] != self._source[c:d]:
                after = self._text(second) + self._source[b:c].decode() + self._text(first)
                yield self._bytes(operator, first, a, d, after)


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _left_alone(node: ast.AST) -> bool:
    """Imports, `__all__`, blocks for the type checker, type aliases and `Literal`s are no numbers."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__"):
        return True
    if isinstance(node, ast.AnnAssign) and "ClassVar[str]" in ast.unparse(node.annotation):
        return True
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Literal", "ClassVar", "TypeVar")


def _is_text(parent: ast.AST, child: ast.AST) -> bool:
    """Docstrings stand alone as a statement."""
    return isinstance(parent, ast.Expr) and _is_string(child)


def _braces(text: str, start: int, source: bytes) -> Iterator[tuple[int, int, str]]:
    """Byte span of each expression in an f-string's source, and its format."""
    position = 0
    while position < len(text):
        if text.startswith(("{{", "}}"), position):
            position += 2
            continue
        if text[position] != "{":
            position += 1
            continue
        depth, begin, stop, colon = 0, position + 1, None, None
        quote = ""
        for index in range(begin, len(text)):
            letter = text[index]
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "'\"":
                quote = letter
            elif letter in "([{":
                depth += 1
            elif depth and letter in ")]}":
                depth -= 1
            elif letter == "}":
                stop = index
                break
            elif not depth and colon is None and (letter == ":" or (letter == "!" and text[index + 1] in "rsa")):
                colon = index
        if stop is None:
            return
        last = stop if colon is None else colon
        offset = start + len(text[:begin].encode())
        yield offset, offset + len(text[begin:last].encode()), text[last:stop]
        position = stop + 1
