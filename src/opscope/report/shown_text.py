"""Text from a trace, as far as a page should carry it."""

from __future__ import annotations

LONGEST = 1000


def shown(text: str) -> str:
    """``text``, cut where nobody reads on; says how long it was. Lone surrogates are replaced."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode("utf-8")
