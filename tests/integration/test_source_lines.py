"""What the lines of a program say is kept with a recording of its calls, and shown."""

import zipapp

import pytest

import opscope
from support.processes import opscope_here, run_opscope
from support.torch_processes import run_torch

PROGRAM = """\
import torch


def step(network):
    return network(torch.ones(2, 4)).sum().item()  # waits


network = torch.nn.Linear(4, 4)
for _ in range(3):
    step(network)
"""


@pytest.fixture
def record(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)

    def call(*options):
        done = run_torch("-m", "opscope", "run", *options, "train.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return opscope.load(tmp_path / "train.opscope")

    return call


def texts_of(trace):
    table = trace.table("source_lines")
    return dict(zip(table["line"].tolist(), table["text"].tolist(), strict=True))


def test_lines_that_made_calls_are_kept_and_shown_and_memory_is_traced_to_them(
    record, tmp_path, monkeypatch
):
    trace = record("--stack", "--memory", "--shapes", "--modules")
    texts = texts_of(trace)
    assert texts[5] == "return network(torch.ones(2, 4)).sum().item()  # waits"
    assert texts[10] == "step(network)"
    assert texts[4] == "def step(network):"
    assert texts[9] == "for _ in range(3):", "after a line that made a call"
    check_memory_by_line(trace)

    (tmp_path / "train.py").unlink()  # shown from the trace, not from the file
    monkeypatch.setenv("COLUMNS", "160")
    shown = opscope_here("summary", tmp_path / "train.opscope")
    assert "Line of your program" in shown.stdout
    assert "train.py:5 in step" in shown.stdout
    assert "return network(torch.ones(2, 4)).sum().item()" in shown.stdout


def test_memory_is_traced_to_the_line_that_keeps_it_without_calls_of_libraries(record):
    check_memory_by_line(record("--own-stack", "--memory", "--shapes", "--modules"))


def check_memory_by_line(trace):
    names = [group.name for group in trace.peak_memory().by_line]
    # Nothing is put down to the line that called the function whose line it was.
    assert not any("train.py:10" in name for name in names)
    assert any(name.endswith("train.py:8: network = torch.nn.Linear(4, 4)") for name in names)
    assert any("train.py:5: return network(" in name for name in names)


def test_lines_of_a_module_in_a_zip_file_are_kept(tmp_path):
    application = tmp_path / "application"
    (application / "parts").mkdir(parents=True)
    (application / "parts" / "__init__.py").touch()
    (application / "parts" / "part.py").write_text(PROGRAM)
    # Torch notes the lines of those that are importing something when it is imported.
    main = "import torch\n\nfrom parts import part\n\npart.step(part.network)\n"
    (application / "__main__.py").write_text(main)
    zipapp.create_archive(application, tmp_path / "train.pyz")
    run_opscope("run", "--own-stack", "train.pyz", cwd=tmp_path, check=True)
    texts = set(opscope.load(tmp_path / "train.opscope").table("source_lines")["text"].tolist())
    assert "return network(torch.ones(2, 4)).sum().item()  # waits" in texts
    assert "part.step(part.network)" in texts


def test_they_can_be_left_out(record):
    assert texts_of(record("--stack", "--no-source-lines")) == {}
