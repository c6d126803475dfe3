"""The command itself: help, version, wrong commands."""

import pytest

import opscope
from opscope.cli.application import COMMANDS


def test_without_arguments_it_helps(command_line):
    outcome = command_line()
    assert outcome.code == 0
    assert all(command.__name__ in outcome.out for command in COMMANDS)


@pytest.mark.parametrize("command", [command.__name__ for command in COMMANDS])
def test_every_command_has_help(command_line, command):
    outcome = command_line(command, "--help")
    assert outcome.code == 0
    assert f"opscope {command}" in outcome.out


def test_help_of_run_says_what_cannot_be_recorded(command_line):
    out = command_line("run", "--help").out
    assert "os._exit()" in out and "SIGKILL" in out


def test_version(command_line):
    assert command_line("--version").out == f"opscope {opscope.__version__}\n"


def test_unknown_command(command_line):
    outcome = command_line("profile")
    assert outcome.code == 2
    assert outcome.complaint == "No such command 'profile'. See `opscope --help`."
