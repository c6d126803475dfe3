"""A pytest plugin: writes how each test ended, and why, for the table of a row of the matrix."""

import json
import os
from pathlib import Path

FOLDER = Path(os.environ.pop("OPSCOPE_MATRIX_OUTCOMES"))
"""A file for each process that runs tests. No program under test sees the variable."""


def pytest_collectreport(report):
    if report.outcome != "passed":
        _write(report.nodeid, report.outcome, _reason(report))


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        _write(report.nodeid, report.outcome, _reason(report))


def _reason(report):
    if report.outcome == "passed":
        return ""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash else str(report.longrepr)


def _write(test, outcome, reason):
    with FOLDER.joinpath(f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "reason": reason}) + "\n")
