"""Every message that opscope raises, read from its own source: a page of the documentation."""

from __future__ import annotations

import ast
import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import opscope
from opscope import errors

_CLASSES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.OpscopeError)
}
_HAS_MEANING = str.maketrans({c: f"&#{ord(c)};" for c in "|*_[]`#\\"})
"""Characters that Markdown would take for markup."""


@dataclass(frozen=True, order=True)
class Message:
    """One message as it is written in the source; what it names shows as an ellipsis."""

    error: str
    text: str
    module: str


def error_messages() -> str:
    """The page, as Markdown."""
    lines = [
        "# Every error message",
        "",
        "This list is generated from the source code; … stands for a name or a value. "
        "[Error messages](../errors.md) explains the messages that need it.",
    ]
    messages = sorted(set(find_messages()))
    for error in sorted({message.error for message in messages}):
        lines += ["", f"## {error}", "", "| message | from |", "|---|---|"]
        lines += [
            f"| {html.escape(m.text, quote=False).translate(_HAS_MEANING)} | `{m.module}` |"
            for m in messages
            if m.error == error
        ]
    return "\n".join(lines) + "\n"


def find_messages() -> Iterator[Message]:
    """The messages of every place that makes one of opscope's errors."""
    package = Path(opscope.__file__).parent
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in _CLASSES and node.args:
                for text in _texts(node.args[0], functions):
                    yield Message(_name(node.func), text, module)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _texts(node: ast.expr, functions: dict[str, ast.FunctionDef]) -> list[str]:
    """Texts of an expression: itself, or the results of the function that it calls."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body, functions) + _texts(node.orelse, functions)
    if isinstance(node, ast.Call) and _name(node.func) in functions:
        returns = ast.walk(functions[_name(node.func)])
        found = [r.value for r in returns if isinstance(r, ast.Return) and r.value is not None]
        return [text for value in found for text in _texts(value, {})]
    text = " ".join(_text(node).split())
    return [text] if text.strip("… ") else []


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) for value in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "…"
