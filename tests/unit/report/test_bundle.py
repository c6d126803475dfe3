"""The built page ships with the package, and is built from the sources in web/."""

from __future__ import annotations

from pathlib import Path

from support.processes import run_python

ROOT = Path(__file__).parents[3]
CHECK = ROOT / "web" / "check_bundle.py"


def test_the_bundle_is_not_stale():
    outcome = run_python(CHECK)
    assert outcome.returncode == 0, outcome.stderr
