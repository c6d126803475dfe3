"""Text from programs and traces, made safe for terminals, spreadsheets and pages.

A name may have terminal escape sequences, marks that change the direction of writing, or formulas.
Data files have the true name; displayed text shows unprintable characters as Python's ``repr`` does
(``\\x1b``, ``\\u202e``).
"""

from __future__ import annotations

from enum import Enum

_PLAIN = str.maketrans({"…": "...", "µ": "u", "·": ".", "─": "-", "├": "|", "└": "`", "→": "->"})
"""ASCII replacements of opscope's own symbols, for encodings that lack them."""

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Includes the full-width forms, which some spreadsheets compute too."""
_MARKUP = str.maketrans({c: f"\\{c}" for c in "|`<[]*"})


def printable(text: str, keep: str = "") -> str:
    """``text`` with characters that are not printable escaped, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def in_encoding(text: str, encoding: str | None) -> str:
    """``text`` with characters replaced that ``encoding`` lacks."""
    if text.isascii():
        return text
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeError, LookupError):
        known = encoding if _is_known(encoding) else "ascii"
        return text.translate(_PLAIN).encode(known, "backslashreplace").decode(known)
    return text


def spreadsheet_cell(value: object) -> object:
    """``value`` for a CSV file: numbers unchanged, text as text even if it looks like a formula.

    Without a leading apostrophe, a spreadsheet computes a text that begins with these characters.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, int | float):
        return value
    text = printable(str(value))
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def in_markdown(text: str) -> str:
    """``text`` as words of a Markdown paragraph or cell, never as markup."""
    return printable(text).translate(_MARKUP)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_known(encoding: str) -> bool:
    try:
        "".encode(encoding)
    except LookupError:
        return False
    return True
