"""Help is as wide as the terminal, whatever that is, and shows every option."""

import inspect

import pytest

from opscope.cli.application import COMMANDS, command_called, parser_of_all


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits(width, monkeypatch, command_line):
    monkeypatch.setenv("COLUMNS", str(width))
    for name in COMMANDS:
        text, about = command_line(name, "--help").out, inspect.getdoc(command_called(name))
        as_they_are = [line for line in about.splitlines() if line.startswith((" ", "-"))]
        assert all(len(line) < width or line in as_they_are for line in text.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each(name):
    assert command_called(name).__doc__.splitlines()[0] == COMMANDS[name]


def test_every_command_declares_what_it_takes():
    assert "summary" in parser_of_all().format_help()


def test_flags_show_no_type(command_line):
    assert "  --shapes  " in command_line("run", "--help").out
    assert "bool" not in command_line("run", "--help").out


def test_what_can_be_chosen_is_named(command_line):
    assert "--format table|md|json|csv" in command_line("summary", "--help").out
    assert "self_cpu_time_total, cpu_time_total" in " ".join(
        command_line("summary", "--help").out.split()
    )
