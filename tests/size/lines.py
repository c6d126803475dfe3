"""Lines of code by room: lines that carry a token; no blank lines, comments or docstrings."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_STRINGS = r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`"""
_ELSEWHERE = re.compile(rf"{_STRINGS}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_ROOMS = {
    "src/opscope": ("*.py",),
    "native": ("*.cpp", "*.c", "*.h", "*.py"),
    "web/src": ("*.ts", "*.css"),
    "tests": ("*.py",),
    "benchmarks": ("*.py", "*.cpp"),
}
"""The parts of the project, each with what is code there. Folders in them are rooms."""


def lines_by_room() -> dict[str, int]:
    """Of each part all lines, and of each folder in it; ``native/tests`` is a part of its own."""
    found: Counter[str] = Counter()
    for part, patterns in _ROOMS.items():
        for path in sorted(one for pattern in patterns for one in (ROOT / part).rglob(pattern)):
            place, *below = path.relative_to(ROOT / part).parts
            is_test = (part, place) == ("native", "tests")
            room = "native/tests" if is_test else part
            count = code_lines(path)
            found[room] += count
            if below and not is_test:
                found[f"{part}/{place}"] += count
    return dict(found)


def code_lines(path: Path) -> int:
    """Of one file."""
    text = path.read_text()
    return len(set(_python(path, text) if path.suffix == ".py" else _c_like(text)))


def _python(path: Path, text: str) -> Iterator[int]:
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in _NO_CODE:
                yield from set(range(token.start[0], token.end[0] + 1)) - docstrings


def _c_like(text: str) -> Iterator[int]:
    """Of C++, TypeScript and CSS."""

    def kept(match: re.Match[str]) -> str:
        found = match[0]
        return re.sub(r"[^\n]", " ", found) if found.startswith(("//", "/*")) else found

    for number, line in enumerate(_ELSEWHERE.sub(kept, text).splitlines()):
        if line.strip():
            yield number
