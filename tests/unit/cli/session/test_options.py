"""Options of ``opscope run`` that are refused before anything runs."""

from argparse import ArgumentTypeError

import pytest

from opscope.cli.session.options import parse_record_option, parse_schedule
from opscope.torch_api.schedule import CyclicSchedule


def test_schedule():
    assert parse_schedule("5,1,3") == CyclicSchedule(wait=5, warmup=1, active=3, repeat=0)
    assert parse_schedule("0, 0, 1, 2") == CyclicSchedule(wait=0, warmup=0, active=1, repeat=2)


@pytest.mark.parametrize(
    "text", ["", "1", "1,2", "1,2,3,4,5", "1,x,3", "1,-1,3", "1,1.5,2", "1,1,0"]
)
def test_no_schedule(text):
    with pytest.raises(ArgumentTypeError, match="step"):
        parse_schedule(text)


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("raise AssertionError('must not run')")
    return tmp_path / "script.py"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--schedule", "1,1"], "--schedule: '1,1' is not"),
        (["--chrome", "trace.txt"], "should end in .json"),
        (["--output", "/proc/trace"], "/proc is not writable"),
        (["--output", "script.py"], "is a file"),
        (["--nonsense"], "--nonsense"),
        (["--flight-recorder", "soon"], "--flight-recorder 'soon'"),
        (["--flight-recorder", "9s", "--max-memory", "x"], "--max-memory 'x'"),
        (["--flight-recorder", "9s", "--budget", "7"], "--budget 7.0"),
        (["--flight-recorder", "9s", "--budget", "x"], "--budget: 'x' is not a number"),
    ],
)
def test_refused_before_the_program_runs(command_line, script, options, said):
    outcome = command_line("run", *options, "script.py")
    assert outcome.code == 2
    assert said in outcome.complaint
    assert [path.name for path in script.parent.iterdir()] == ["script.py"]


def test_nothing_to_run(command_line, script):
    for arguments, said in (
        (["-m"], "required: SCRIPT|-m MODULE|-c CODE|-"),
        (["--", "missing.py"], "There is no script 'missing.py'"),
        (["-m", "missing_module"], "There is no module 'missing_module'"),
    ):
        outcome = command_line("run", *arguments)
        assert outcome.code == 2 and said in outcome.complaint


def test_what_is_to_be_recorded_is_named_as_the_options_are():
    assert parse_record_option("operators") == []
    assert parse_record_option("operators, shapes,own-stack") == ["shapes", "own_functions"]
    assert parse_record_option("stack,c-calls") == ["functions", "stack"]
    with pytest.raises(
        ArgumentTypeError, match=r"'tensors' cannot be recorded. Name some of operators,"
    ):
        parse_record_option("shapes,tensors")
