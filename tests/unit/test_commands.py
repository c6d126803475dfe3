"""Every command that people are told to run exists, and `make help` lists it."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / ".ci" / "run"]

NAMED = re.compile(r"(?:`|^|\$ )make ([a-z][a-z-]*)", re.MULTILINE)
STEP_OF_CI = re.compile(r"^step ([a-z][a-z-]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def listed():
    command = ["make", "--no-print-directory", "help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line.split()[0] for line in shown.stdout.splitlines() if line[:1].islower()}


def test_every_command_that_is_written_down_is_listed(listed):
    named = {}
    for document in DOCUMENTS:
        written = STEP_OF_CI if document.name == "run" else NAMED
        for name in written.findall(document.read_text()):
            named.setdefault(name, document.name)
    assert {"demo", "test", "native-test"} <= named.keys()
    assert {name: where for name, where in named.items() if name not in listed} == {}


def test_every_phony_target_is_a_command(listed):
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.M)
    assert set(phony.split()) == listed
