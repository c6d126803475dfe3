"""What a shell is told when the tab key is pressed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.cli.completion import candidates


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["su"], ["summary"]),
        (["summary", "--row"], ["--row-limit"]),
        (["summary", "--format", ""], ["table", "md", "json", "csv"]),
        (["summary", "--format", "c"], ["csv"]),
        (["summary", "tr"], []),
        (["summary", "--rank", ""], []),
        (["run", "--sh"], ["--shapes"]),
        (["run", "--output", "x", "--sh"], ["--shapes"]),
        (["run", "train.py", "--sh"], []),
        (["unknown", "--sh"], []),
    ],
)
def test_candidates(words, offered):
    assert candidates(words) == offered


def test_every_command_and_option_of_its_own():
    assert "doctor" in candidates([""])
    assert {"--table", "--no-table", "--help"} <= set(candidates(["run", "--"]))


def test_an_unknown_shell(command_line):
    outcome = command_line("completion", "tcsh")
    assert outcome.code == 2
    assert "'tcsh' is not one of" in outcome.complaint


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(command_line, tmp_path):
    script = command_line("completion", "bash").out
    command = tmp_path / "opscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m opscope "$@"\n')
    command.chmod(0o755)
    asked = 'COMP_WORDS=(opscope summary --row); COMP_CWORD=2; _opscope; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"],
        env={"PATH": f"{tmp_path}:{Path('/usr/bin')}:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "--row-limit\n", done.stderr
