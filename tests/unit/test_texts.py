"""Texts that users read are plain: no words of ``tests/words.txt``, short sentences and lines."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.cli.application import COMMANDS, parser_of

ROOT = Path(__file__).parents[2]
MOST_WORDS = 40
"""Of a sentence."""
MOST_COLUMNS = 120
"""Of a line of a document."""
UNWRAPPED = ("|", "    ", "description:")
"""Beginnings of lines that cannot be wrapped: rows of tables, code, the header of a skill."""
WORDS = dict(
    line.split(": ", 1)
    for line in (ROOT / "tests/words.txt").read_text().splitlines()
    if not line.startswith("#")
)
CODE = re.compile(r"<[a-z]+[ >]|\{+\"|^\s*(create|select) ", re.MULTILINE)
"""HTML, JSON and SQL in strings."""
FORBIDDEN = re.compile(rf"\b({'|'.join(map(re.escape, WORDS))})\b", re.IGNORECASE)


def documents() -> list[Path]:
    guides = [path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts]
    names = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    skills = (ROOT / "src/opscope/readers/skill").glob("*.md")
    return sorted([*guides, *skills, *(ROOT / name for name in names)])


def texts_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Strings and f-strings, without docstrings and code."""
    tree = ast.parse(path.read_text())
    inner = {
        id(part)
        for node in ast.walk(tree)
        for part in (node.values if isinstance(node, ast.JoinedStr) else [])
    }
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else 1 for part in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in inner | docstrings:
            text = str(node.value)
        if " " in text and not CODE.search(text):
            yield node.lineno, text


def texts_of_page(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.lstrip().startswith(("//", "*", "/*")):
            yield from ((number, text) for text in re.findall(r"[\"`]([^\"`]* [^\"`]*)[\"`]", line))


def comments_and_strings(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of C++, TypeScript or a stub, without words inside identifiers."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        texts = re.findall(r"//.*|\"[^\"]* [^\"]*\"", line) if path.suffix != ".pyi" else [line]
        yield from ((number, text) for text in texts)


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, items of lists and cells of tables, without code."""
    number, words, is_code = 1, [], False
    for row, line in enumerate([*markdown.splitlines(), ""], 1):
        text = line.strip()
        is_fence = text.startswith("```")
        starts = not text or is_fence or bool(re.match(r"([-*>#|]|\d+\.) ", text + " "))
        if starts and words:
            yield number, " ".join(words)
            words = []
        is_code ^= is_fence
        if is_fence or is_code or line.startswith("    "):
            continue
        if text.startswith("|"):
            yield from ((row, cell) for cell in text.split("|"))
        elif text:
            number = number if words else row
            words.append(text)


def sentences(text: str) -> list[str]:
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|https?:\S+", " x ", text)
    return re.split(r"(?<=[.!?:;])\s+|\n\n+|\n\s*[-*] ", plain)


def complaints(where: str, text: str) -> Iterator[str]:
    for found in FORBIDDEN.finditer(" ".join(text.split())):
        word = found[0].lower()
        yield f"{where}: '{word}'. Write instead: {WORDS[word]}"
    for sentence in sentences(text):
        if len(words := re.findall(r"\w[\w'.-]*", sentence)) > MOST_WORDS:
            yield f"{where}: {len(words)} words in a sentence: {' '.join(sentence.split())[:90]}..."


def of_source(folder: str, pattern: str, texts) -> list[str]:
    return [
        complaint
        for path in sorted((ROOT / folder).rglob(pattern))
        for line, text in texts(path)
        for complaint in complaints(f"{path.relative_to(ROOT)}:{line}", text)
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_plain(name):
    parser = parser_of(name)
    actions: list[argparse.Action] = parser._actions
    texts = [parser.description or "", *(action.help or "" for action in actions)]
    assert [c for text in texts for c in complaints(f"opscope {name} --help", text)] == []


def test_messages_and_findings_are_plain():
    assert of_source("src/opscope", "*.py", texts_of_python) == []


def test_the_report_is_plain():
    assert of_source("web/src", "*.ts", texts_of_page) == []


@pytest.mark.parametrize(
    "folder, pattern",
    [("native", "*.h"), ("native", "*.cpp"), ("web/src", "*.ts"), ("src/opscope", "*.pyi")],
)
def test_comments_are_plain(folder, pattern):
    found = of_source(folder, pattern, comments_and_strings)
    exempt = ("native/tests",)
    assert [one for one in found if not one.startswith(exempt)] == []


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_are_plain(path):
    text = path.read_text()
    name = path.relative_to(ROOT)
    found = [c for line, part in paragraphs(text) for c in complaints(f"{name}:{line}", part)]
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > MOST_COLUMNS and not is_code and not line.startswith(UNWRAPPED):
            found.append(f"{name}:{number}: {len(line)} columns")
    assert found == []


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("Whoever reads it waits.", "'whoever'"),
        (f"{'word ' * 41}.", "41 words"),
        ("`a b c` " * 45, "45 words"),
    ],
)
def test_the_check_finds_what_it_should(text, complaint):
    assert complaint in "".join(complaints("here", text))


RIDDLES = re.compile(r"(Of|What|Those|Likewise|The same|As|So|That|Also) ")
"""Docstrings that begin so name no thing: "Number of steps." says more than "What was counted."."""


@pytest.mark.parametrize("room", sorted({path.parent for path in (ROOT / "src").rglob("*.py")}))
def test_docstrings_begin_with_the_thing_or_the_action(room):
    found = []
    for path in sorted(room.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                found += [f"{path.name}:{node.lineno} {text[:60]}"] * bool(RIDDLES.match(text))
    assert not found
