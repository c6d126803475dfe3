"""Help is as wide as the terminal, whatever that is, and shows what a user needs first."""

import importlib

import pytest

from opscope.cli.application import COMMANDS, parser_of, parser_of_all


def first_line(name):
    return importlib.import_module(f"opscope.cli.{name}").__doc__.splitlines()[0]


@pytest.mark.parametrize("width", [60, 200])
def test_it_fits(width, monkeypatch, command_line):
    monkeypatch.setenv("COLUMNS", str(width))
    for name in COMMANDS:
        text, about = command_line(name, "--help").out, parser_of(name)
        said = f"{about.description}\n{about.epilog}"
        as_they_are = [line for line in said.splitlines() if line.startswith((" ", "-"))]
        assert all(len(line) < width or line in as_they_are for line in text.splitlines())
        assert all(line == line.rstrip() for line in text.splitlines())


def test_every_command_says_what_it_does_and_has_two_examples(command_line):
    for name in COMMANDS:
        assert first_line(name) == COMMANDS[name]
        _, examples = command_line(name, "--help").out.split("examples:\n")
        assert examples.count(f"  opscope {name}") == 2
    assert "summary" in parser_of_all().format_help()


def test_run_shows_eight_options_and_all_on_request(command_line):
    short = command_line("run", "--help").out
    options = {word for word in short.split() if word.startswith("--")} - {"--help", "--help-all"}
    assert {one.strip(",.;") for one in options} >= {"--why", "--shapes", "--report"}
    assert len([line for line in short.splitlines() if line.startswith("  -")]) == 8 + 2
    assert "--schedule" not in short and "--schedule" in command_line("run", "--help-all").out


def test_what_can_be_chosen_is_named(command_line):
    text = command_line("summary", "--help").out
    assert "--format table|md|json|csv" in text
    assert "self_cpu_time_total, cpu_time_total" in " ".join(text.split())
    assert "\n- chrome (.json" in command_line("export", "--help").out
