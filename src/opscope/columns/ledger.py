"""What a recording says of itself: of every source what was asked for, recorded and lost."""

from __future__ import annotations

from collections.abc import Iterator

LOSS = "dropped"
"""What rows begin with that count what was asked for and is not there."""

NEWER = "newer opscope"
"""The source of counts of what only a newer opscope knows."""


class Ledger(dict[str, dict[str, float]]):
    """``{source: {what: value}}``."""

    def losses(self, source: str | None = None) -> Iterator[tuple[str, str, float]]:
        """Source, what and how many of all that was lost; of one source alone where it is named."""
        for name, counts in self.items():
            for what, value in counts.items():
                if value > 0 and what.startswith(LOSS) and source in (None, name):
                    yield name, what, value

    def lost(self, source: str | None = None) -> float:
        """How many were lost, of all sources or of one."""
        return sum(count for *_, count in self.losses(source))

    def missing(self) -> float:
        """How many no answer is about: they were lost, or only a newer opscope knows them."""
        newer = self.get(NEWER, {})
        others = (count for what, count in newer.items() if not what.startswith(LOSS))
        return self.lost() + sum(count for count in others if count > 0)
