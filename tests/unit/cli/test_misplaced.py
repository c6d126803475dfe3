"""Flags of ours in the wrong place are pointed at; words of the program alone are left alone."""

import pytest

from opscope.cli.misplaced import hint
from opscope.launch.program import Program


@pytest.mark.parametrize(
    ("program", "instead"),
    [
        (Program("train.py", ("--shapes",)), "opscope run --shapes train.py"),
        (Program("train.py", ("x", "--schedule=1,1,3")), "opscope run --schedule=1,1,3 train.py"),
        (Program("pkg.train", ("--stack",), is_module=True), "opscope run --stack -m pkg.train"),
        (Program("f(1)", ("--why",), is_code=True), "opscope run --why -c 'f(1)'"),
    ],
)
def test_a_flag_after_the_program(program, instead):
    said = hint(program)
    assert said is not None
    assert said.endswith(f"put it before: {instead}")


@pytest.mark.parametrize("arguments", [(), ("--epochs", "3"), ("shapes",), ("--output", "x")])
def test_arguments_of_the_program(arguments):
    assert hint(Program("train.py", arguments)) is None


def test_a_flag_with_a_value(command_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = command_line("run", "--shapes", "true", "train.py")
    assert outcome.code == 2
    assert outcome.complaint == (
        "There is no script 'true'. Flags such as --shapes are on when they are there, and take no "
        "value: leave out 'true'."
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py", "--epochs", "3"], "To record it: opscope run train.py --epochs 3"),
        (["sumary"], "Did you mean `opscope summary`?"),
        (["--shapes", "run"], "Options stand after the command."),
    ],
)
def test_no_command(command_line, words, said):
    outcome = command_line(*words)
    assert outcome.code == 2
    assert said in outcome.complaint


def test_a_folder_in_place_of_a_command(command_line, trace_folder):
    said = f"To look at a trace: opscope summary {trace_folder}"
    assert said in command_line(trace_folder).complaint
