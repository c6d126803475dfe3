"""``opscope diff``: its sides, its formats and its exit codes."""

import json

import pytest

from support.step_programs import step_program


@pytest.fixture
def save(tmp_path):
    def saved(name, **options):
        step_program(**options).save(tmp_path / name)
        return tmp_path / name

    return saved


def test_a_table_says_what_changed(command_line, save):
    done = command_line("diff", save("old"), save("new", took_us={"block2": 190}))
    assert done.code == 0
    assert "Step: 1.32 ms to 1.42 ms, +6.8%" in done.out
    assert "block2" in done.out
    assert "slower" in done.out


def test_several_recordings_a_side(command_line, save):
    old = [save(f"old{n}", noise=0.01, seed=n) for n in range(3)]
    new = [save(f"new{n}", noise=0.01, seed=n + 50) for n in range(3)]
    done = command_line("diff", *old, "--to", *new, "--gate", "step<=+5%,count==")
    assert done.code == 0, done.err
    assert "(3 recordings, 90 steps" in done.out
    assert "step<=+5% passed" in done.err


@pytest.mark.parametrize(
    ("gate", "code"),
    [("count==", 0), ("count==,bytes==", 3), ("count==,start-up<=+1%", 4)],
)
def test_a_gate_sets_the_exit_code(command_line, save, gate, code):
    old, new = save("old", noise=0.2), save("new", noise=0.2, seed=1, width={"block0": 9})
    done = command_line("diff", old, new, "--gate", gate)
    assert done.code == code
    for condition in gate.split(","):
        assert f"{condition} " in done.err


def test_json_has_everything(command_line, save):
    new = save("new", calls={"block1": 3}, width={"block5": 20})
    done = command_line("diff", save("old"), new, "--format", "json", "--gate", "count==")
    found = json.loads(done.out)
    assert found["step"]["verdict"] == "not judged"
    assert {one["place"]["module"] for one in found["counts"]} == {"block1", "block5"}
    assert found["shapes"][0]["a"] == ["1 x [4, 8], [8, 4]"]
    assert found["gate"][0]["outcome"] == "failed"


def test_markdown_for_a_pull_request(command_line, save, tmp_path):
    new, page = save("new", calls={"block1": 3}), tmp_path / "diff.md"
    done = command_line(
        "diff", save("old"), new, "--format", "md", "--gate", "count==", "--output", page
    )
    assert (done.code, done.out) == (3, "")
    text = page.read_text()
    assert text.startswith("| Condition | Outcome | Why |")
    assert "| aten::mm in block1, forward | 1 | 3 | +2 |" in text


def test_a_page(command_line, save, tmp_path):
    page = tmp_path / "it.html"
    done = command_line("diff", save("old"), save("new"), "--format", "html", "-o", page)
    assert (done.code, done.out) == (0, "")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("arguments", [["a"], ["a", "b", "c"]])
def test_sides_have_to_be_distinguished(command_line, arguments):
    done = command_line("diff", *arguments)
    assert done.code == 2
    assert "--to" in done.complaint


def test_a_gate_that_makes_no_sense_is_reported_before_anything_is_read(command_line):
    done = command_line("diff", "none", "nothing", "--gate", "speed<=1%")
    assert done.code == 2
    assert "no quantity 'speed'" in done.complaint
