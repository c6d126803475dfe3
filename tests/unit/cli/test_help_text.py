"""Help is as wide as the terminal, whatever that is, and shows every value whole."""

import pytest

from opscope.cli.application import COMMANDS, command_called
from opscope.cli.command import spelled
from opscope.cli.help_text import help_of, said_of


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", COMMANDS)
def test_it_fits_and_nothing_is_cut(name, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    command = command_called(name)
    text = help_of(command)
    flowing = " ".join(text.split())
    for parameter in command.parameters:
        assert " ".join(said_of(parameter).split()) in flowing
    for option in command.options:
        assert f"  {spelled(option)}" in text
    examples = [line for line in command.help.splitlines() if line.startswith("    ")]
    assert all(len(line) < width or line in examples for line in text.splitlines())
    assert "…" not in text


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_each(name):
    assert command_called(name).help.splitlines()[0] == COMMANDS[name]


def test_flags_show_no_type(command_line):
    assert "  --shapes  " in command_line("run", "--help").out
    assert "bool" not in command_line("run", "--help").out


def test_what_can_be_chosen_is_named(command_line):
    assert "--format table|md|json|csv" in command_line("summary", "--help").out
    assert "self_cpu_time_total, cpu_time_total" in " ".join(
        command_line("summary", "--help").out.split()
    )
