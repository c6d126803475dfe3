"""What the rows of the matrix gave, as files and as the page docs/versions.md."""

import json
import re
from collections import Counter
from pathlib import Path

from matrix.rows import parse_row

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"
_TABLE = "| torch | Python | tests | passed | skipped | failed |\n"


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
    """The table of the page and what follows it, from all results; text before the table stays."""
    found = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    found.sort(key=_versions)
    text = page.read_text().partition(_TABLE)[0] + _TABLE + "|---|---|---|--:|--:|--:|\n"
    page.write_text(text + "".join(map(_line, found)) + "".join(map(_failures, found)))


def _versions(result):
    """By torch, then by Python; those without torch last."""
    row = parse_row(result["row"])
    key = [[int(n) for n in re.findall(r"\d+", v)] for v in (row.torch, row.python)]
    return not row.torch, *key, row.python


def _line(result):
    row = parse_row(result["row"])
    build = "t" if row.python.endswith("t") else ""
    if "unavailable" in result:
        name = f"{row.torch or '-'} | {row.python}"
        return f"| {name} | not run: {result['unavailable']} | | | |\n"
    name = f"{(result['torch'] or '-').split('+')[0]} | {result['python']}{build}"
    part = "part" if result.get("closest") else "all"
    skipped, failed = sum(result["skipped"].values()), len(result["failed"])
    return f"| {name} | {part} | {result['passed']} | {skipped} | {failed} |\n"


def _failures(result):
    if not result.get("failed"):
        return ""
    torch = f"torch {result['torch']}" if result["torch"] else "No torch"
    lines = [
        f"\n## Failures: {torch}, Python {result['python']}\n",
        "| test | error |",
        "|---|---|",
    ]
    failed = result["failed"].items()
    lines += [f"| `{_escaped(test)}` | {_cell(why)} |" for test, why in failed]
    return "\n".join([*lines, ""])


def _without_folders(text):
    return re.sub(r"/[\w./+-]*/", "…/", text)


def _cell(text):
    # Addresses and folders of one run would make every page another.
    text = re.sub(r"0x[0-9a-f]+", "0x…", _without_folders(" ".join(text.split())))
    return _escaped(text).replace("<", "&lt;")


def _escaped(text):
    return text.replace("|", "\\|")
