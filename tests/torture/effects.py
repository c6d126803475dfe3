"""What each primitive does, as torch's own profiler sees it.

    python -m torture.effects FILE

runs every primitive under torch.profiler, in a process without opscope, and writes what it saw as
JSON.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from pathlib import Path

import torch

from torture.history import Effect
from torture.primitives import PRIMITIVES

_SIZE = 1009


def main() -> None:
    """Write the file."""
    gc.disable()
    torch.set_num_threads(1)
    for primitive in PRIMITIVES.values():  # some do more the first time
        primitive.run(_SIZE)
        primitive.run(_SIZE)
    seen = {name: _seen(name) for name in PRIMITIVES}
    Path(sys.argv[1]).write_text(json.dumps(seen, indent=1))


def _seen(name: str) -> dict[str, dict[str, int]]:
    """Counts by category and name; sizes in units of the primitive's own where they are."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        PRIMITIVES[name].run(_SIZE)
    counts: dict[str, Counter[str]] = {}
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            category = "allocation" if event.nbytes() > 0 else "free"
            key = _unit(abs(event.nbytes()))
        else:
            category = "annotation" if event.is_user_annotation() else "operator"
            key = event.name()
        counts.setdefault(category, Counter())[key] += 1
    return {category: dict(found) for category, found in counts.items()}


def _unit(size_bytes: int) -> str:
    factor, rest = divmod(size_bytes, _SIZE)
    return f"{size_bytes} bytes" if rest else f"{factor} times"


class Effects:
    """What was written, for any size."""

    def __init__(self, file: Path) -> None:
        self._seen = json.loads(file.read_text())

    def of(self, name: str, size: int) -> Counter[Effect]:
        """What one run of this primitive does."""
        effects: Counter[Effect] = Counter()
        for category, found in self._seen[name].items():
            for key, count in found.items():
                value: object = key
                if category in ("allocation", "free"):
                    number, unit = key.split()
                    value = int(number) * (size if unit == "times" else 1)
                effects[category, value] += count
        primitive = PRIMITIVES[name]
        effects.update(("module", module) for module in primitive.modules)
        effects.update(("optimizer", optimizer) for optimizer in primitive.optimizers)
        return effects


if __name__ == "__main__":
    main()
