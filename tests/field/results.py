"""Results of the libraries in ``build/field/results``, and the page that is made of them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, field

from field.environment import FOLDER, TREE
from field.libraries import LIBRARIES, Library
from field.runs import MODES

_FOLDER = FOLDER / "results"


@dataclass
class Result:
    """Of one library: what was run, and what differed by mode."""

    library: Library
    ran: str
    exit_code: int
    operators: int
    seconds: float
    modes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """As its requirement names it."""
        return self.library.requirements.split()[0]

    def save(self) -> None:
        """Replace the last result."""
        _FOLDER.mkdir(parents=True, exist_ok=True)
        said = {**asdict(self), "version": self.version, "day": time.strftime("%Y-%m-%d")}
        (_FOLDER / f"{self.library.name}.json").write_text(json.dumps(said))


def write_page() -> None:
    """Write ``docs/works-with.md`` of the last result of each library."""
    shown = [mode for mode in MODES if mode != "beside"]
    read = (_FOLDER / f"{library.name}.json" for library in LIBRARIES)
    rows = sorted(
        (json.loads(file.read_text()) for file in read if file.exists()),
        key=lambda said: str(said["version"]).lower(),
    )
    columns = ["library", "what", "operators", *shown]
    lines = [_HEAD, _row(columns), _row(["---"] * len(columns))]
    notes = []
    for said in rows:
        cells = []
        for mode in shown:
            found = said["modes"].get(mode)
            unknown = [line for line in found or () if not _EXPLAINED.match(f"{mode}: {line}")]
            explained = "same, and [calibration](#calibration)" if found else "same"
            cells.append("not run" if found is None else "differs" if unknown else explained)
            notes += [f"- {said['version']}, {mode}: `{line}`" for line in unknown]
        lines.append(_row([said["version"], said["ran"], f"{said['operators']:,}", *cells]))
    lines += ["", *(["What differs:", "", *notes] if notes else ["No differences."]), _CALIBRATION]
    (TREE / "docs" / "works-with.md").write_text("\n".join(lines))


_EXPLAINED = re.compile(
    r"drop-in: operator aten::"
    r"(as_strided|cat|empty|fill_|mT|mul_|neg|ones|select|slice|transpose): \d+, recorded \d+"
)
"""Of ``opscope.recording.cost``."""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


_HEAD = f"""# Works with

A part of each library's tests, or a program that uses the library, runs without and with opscope.
The test compares exit codes, results of tests, output with all numbers, threads, open files, files
left behind, and the number of calls of each operator. A callback that shares no code with opscope
counts these calls. For up to 300,000 events, the summary, the Chrome file and the answers for
agents must have the same numbers as the trace. `make field` runs the test, `make field
LIBRARIES=--page` writes its results to this page.
Written {time.strftime("%Y-%m-%d")}, with torch 2.13 on CPU.

`default` is `opscope run` without options; `everything` records arguments, memory, Python calls,
modules and tasks; `flight` is the flight recorder; `drop-in` replaces torch.profiler alone.
"""
_CALIBRATION = """
## Calibration

After the first profile of a program, opscope measures the overhead of recording once: 280 small
calls on a separate thread, outside recordings. Other callbacks of the process receive these calls.
"""
