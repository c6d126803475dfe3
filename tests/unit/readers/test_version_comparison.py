from pathlib import Path

import pytest

from opscope.cli import main
from opscope.errors import UsageError
from opscope.readers import version_comparison
from opscope.readers.recorded_run import RecordedRun
from opscope.readers.version_comparison import Rounds, record_rounds
from support.build_trace import build_trace, span


def run(output="done", code=0):
    return RecordedRun(Path("t"), code, output, "", False)


@pytest.mark.parametrize(
    ("old", "new", "same", "said"),
    [
        ([run(), run()], [run(), run()], True, "same output, exit code 0"),
        ([run(code=1)], [run()], False, "exit codes differ: 1 before, 0 now"),
        ([run("a\nb\x1b[2J")], [run("a")], False, "outputs differ: 'b\\\\x1b[2J' before, 'a' now"),
        ([run("1"), run("2")], [run("1"), run("1")], None, "print different things"),
        ([run(""), run("")], [run("x"), run("x")], False, "outputs differ: '' before, 'x' now"),
    ],
)
def test_outputs_of_both_sides_are_compared(old, new, same, said):
    found, text = Rounds(tuple(old), tuple(new)).outputs
    assert found is same
    assert said in text


@pytest.mark.parametrize(
    ("old", "count", "message"),
    [
        ("nowhere.py", 3, "is not a file"),
        (".", 3, "is not a file"),
        (__file__, 2, "3 rounds or more"),
    ],
)
def test_what_cannot_be_compared_is_refused(old, count, message):
    with pytest.raises(UsageError, match=message):
        record_rounds(old, __file__, [], count, print)


@pytest.fixture
def two_scripts(tmp_path, monkeypatch):
    """Scripts of which a recording is made up: how often a step calls an operator, and the end."""
    monkeypatch.chdir(tmp_path)
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text("")
    made, begun = {"old.py": (1, "done", 0), "new.py": (1, "done", 0)}, []

    def recorded(words, trace, options):
        script, *arguments = words
        begun.append((script, arguments))
        calls, output, code = made[script]
        spans = [
            one
            for step in range(16)
            for one in (
                span(f"ProfilerStep#{step}", 1000 * step, 1000 * step + 900),
                *(
                    span("aten::mm", 1000 * step + at, 1000 * step + at + 9)
                    for at in range(0, 10 * calls, 10)
                ),
            )
        ]
        build_trace(spans).save(trace)
        return RecordedRun(trace, code, output, "", False)

    monkeypatch.setattr(version_comparison, "record_run", recorded)
    return made, begun


def diff(*words):
    with pytest.raises(SystemExit) as ended:
        main(["diff", "--run", "3", *words])
        raise SystemExit(0)
    return ended.value.code


def test_rounds_take_turns_and_the_gate_decides(two_scripts, capsys):
    made, begun = two_scripts
    assert diff("--gate", "count==", "old.py", "new.py", "--", "--lr", "3") == 0
    turns = ["old.py", "new.py", "new.py", "old.py", "old.py", "new.py"]
    assert begun == [(script, ["--lr", "3"]) for script in turns]
    assert "accept the new version" in capsys.readouterr().err
    made["new.py"] = (5, "done", 0)
    assert diff("--gate", "count==", "old.py", "new.py") == 3
    shown = capsys.readouterr()
    assert "reject the new version" in shown.err and "aten::mm" in shown.out


def test_without_a_gate_the_step_decides_and_other_outputs_reject(two_scripts, capsys):
    made, _ = two_scripts
    assert diff("old.py", "new.py") == 4  # no difference
    assert "undecided" in capsys.readouterr().err
    made["new.py"] = (1, "else", 0)
    assert diff("old.py", "new.py") == 3
    assert "outputs differ: 'done' before, 'else' now" in capsys.readouterr().err
    made["new.py"] = (1, "done", 7)
    assert diff("--gate", "count==", "old.py", "new.py") == 3
    assert "exit codes differ: 0 before, 7 now" in capsys.readouterr().err
