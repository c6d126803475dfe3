"""What the rows of the matrix gave, as files and as the page docs/versions.md."""

import json
import re
from collections import Counter
from pathlib import Path

from matrix.rows import ROWS

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"
_BEGIN = """# Versions of torch and Python

What `make matrix` found, row by row: each has the tests that torch has a part in, or, without
torch, those of the core and of the recorder of Python calls. Builds for CUDA were used without
their libraries, which `tests/matrix/cuda_stubs.py` stands in for; no machine had a GPU. Skipped are
tests of what a version does not have, and of what the machine does not have. Interpreters that it
lacks are Debian's newest, in a folder of their own (`tests/matrix/interpreters.py`).

Python 3.13t to 3.15t is recorded without the GIL: calls, modules, optimizers, annotations and
collections of threads that run at the same time. Runs of asyncio's tasks are not seen there, which
the ledger says, but with `PYTHON_GIL=1`. Later builds have the GIL on once opscope is imported.

"""


def read_outcomes(folder):
    """By test how it ended and why; what several processes skipped alike is there once.

    What failed in one process and passed in another, which ran it when nothing else did, ended
    "alone".
    """
    found = {}
    for file in sorted(folder.glob("*.jsonl")):
        for test, one in _of_process(file).items():
            found.setdefault(test, []).append(one)
    return {test: _in_the_end(ends) for test, ends in found.items()}


def _in_the_end(ends):
    failed = [one for one in ends if one["outcome"] == "failed"]
    if failed and any(one["outcome"] == "passed" for one in ends):
        return {**failed[0], "outcome": "alone"}
    return (failed or ends)[-1]


def _of_process(file):
    """Of one process that ran tests; a test whose end passed has failed all the same."""
    outcomes = {}
    for line in file.read_text().splitlines():
        one = json.loads(line)
        if outcomes.get(one["test"], {}).get("outcome") != "failed":
            outcomes[one["test"]] = one
    return outcomes


def summary(outcomes):
    """Counts, reasons of those skipped, and what failed with the first line of its message.

    What failed beside other tests and not alone has passed, and is named with what it said.
    """
    skipped = Counter(one["reason"] for one in outcomes.values() if one["outcome"] == "skipped")
    alone = _messages(outcomes, "alone")
    passed = sum(1 for one in outcomes.values() if one["outcome"] == "passed") + len(alone)
    return {
        "passed": passed,
        "skipped": dict(sorted(skipped.items())),
        "failed": _messages(outcomes, "failed"),
        "alone": alone,
    }


def with_mended(kept, outcomes):
    """A row's result once what failed there has been run again.

    What passes now has been mended since, and keeps what it said when it failed.
    """
    again = {test: outcomes.get(test, {}).get("outcome") for test in kept["failed"]}
    mended = {test: why for test, why in kept["failed"].items() if again[test] in _PASSED}
    return {
        **kept,
        "passed": kept["passed"] + len(mended),
        "failed": {test: why for test, why in kept["failed"].items() if test not in mended},
        "mended": {**kept.get("mended", {}), **mended},
    }


_PASSED = ("passed", "alone")


def _messages(outcomes, outcome):
    return {
        test: _without_folders((one["reason"].strip().splitlines() or [""])[0])[:200]
        for test, one in sorted(outcomes.items())
        if one["outcome"] == outcome
    }


def write_page(results=RESULTS, page=PAGE):
    """The page from all results that there are, in the order of the rows."""
    order = {name: number for number, name in enumerate(ROWS)}
    found = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    found.sort(key=lambda result: order.get(result["row"], len(order)))
    page.write_text(_BEGIN + _overview(found) + "".join(map(_section, found)))


def _overview(found):
    head = "| row | passed | skipped | failed |\n|---|---|---|---|\n"
    return head + "".join(map(_line, found))


def _line(result):
    if "unavailable" in result:
        return f"| `{result['row']}` | not run: {result['unavailable']} | | |\n"
    skipped, failed = sum(result["skipped"].values()), len(result["failed"])
    return f"| `{result['row']}`{_part(result)} | {result['passed']} | {skipped} | {failed} |\n"


def _part(result):
    if not result.get("closest"):
        return ""
    nearest = "torch" if result["torch"] else "the interpreter"
    return f", only what is closest to {nearest}"


def _section(result):
    if "unavailable" in result:
        return ""
    torch = f"torch {result['torch']}" if result["torch"] else "No torch"
    lines = [f"\n## {torch}, Python {result['python']}\n"]
    if result["skipped"]:
        lines += ["| skipped | why |", "|---|---|"]
        lines += [f"| {count} | {_cell(why)} |" for why, count in result["skipped"].items()]
    for of_these, said in (
        ("failed", "failed"),
        ("alone", "failed beside other tests, passed alone"),
        ("mended", "failed in the whole row, passed once mended"),
    ):
        if result.get(of_these):
            lines += ["", f"| {said} | with |", "|---|---|"]
            lines += [
                f"| `{_escaped(test)}` | {_cell(why)} |" for test, why in result[of_these].items()
            ]
    if len(lines) == 1:
        lines.append("Everything ran and passed.")
    return "\n".join([*lines, ""])


def _without_folders(text):
    return re.sub(r"/[\w./+-]*/", "…/", text)


def _cell(text):
    # Addresses and folders of one run would make every page another.
    text = re.sub(r"0x[0-9a-f]+", "0x…", _without_folders(" ".join(text.split())))
    return _escaped(text).replace("<", "&lt;")


def _escaped(text):
    return text.replace("|", "\\|")
