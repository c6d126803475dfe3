"""A folder that was sent holds data: opscope's commands and processes run nothing of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.chrome_files import op
from support.processes import run_python, wait_until

OPSCOPE = str(Path(sys.executable).with_name("opscope"))
HOSTILE = "open({mark!r}, 'a').write(__file__ + '\\n')\nraise ImportError('harmless')\n"
OURS = ("duckdb", "pyarrow", "rich", "fsspec", "sitecustomize", "usercustomize")
"""What opscope imports and torch does not: a program beside these still runs."""
STANDARD = ("json", "numpy", "csv", "struct", "socket", "queue", "tempfile", "opscope")


class Sent:
    """A folder, and whether anything of it was run."""

    def __init__(self, folder, names):
        self.folder, self.mark = folder, folder.parent / "ran"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / f"{name}.py").write_text(HOSTILE.format(mark=str(self.mark)))

    def run(self, *words, **options):
        """With the folder as the current one, and named by variables."""
        options = {"cwd": self.folder, "capture_output": True, "text": True, **options}
        done = subprocess.run([OPSCOPE, *words], timeout=120, check=False, **options)
        return done.returncode, done.stdout + done.stderr

    @property
    def ran(self):
        return self.mark.read_text() if self.mark.exists() else ""


@pytest.fixture
def of_ranks(tmp_path):
    import json

    sent = Sent(tmp_path / "job", (*OURS, *STANDARD))
    for rank in range(3):
        events = [op("aten::mm", 1000 + 10 * i, 5) for i in range(9)]
        text = json.dumps({"distributedInfo": {"rank": rank, "world_size": 3},
                           "traceEvents": events})  # fmt: skip
        (sent.folder / f"t-rank-{rank}.json").write_text(text)
    return sent


def test_commands_over_files_of_ranks(of_ranks, tmp_path):
    for words in (
        ["summary", "."],
        ["ranks", "--ask", "operators", "."],
        ["export", ".", "-o", str(tmp_path / "job.opscope")],
    ):
        code, said = of_ranks.run(*words)
        assert not of_ranks.ran, words
        assert "could not be read" not in said, (words, code, said)
    saved = Sent(tmp_path / "job.opscope", (*OURS, *STANDARD))
    for rollup in saved.folder.rglob("rollup*"):
        rollup.unlink()
    code, said = saved.run("ranks", "--rollup", ".")
    assert not saved.ran and code == 0, said


PROGRAM = """
import os, torch
os.environ["PYTHONPATH"] = ":"
for _ in range(50):
    torch.ones(3).add(1)
{then}
"""


def program_beside_modules(tmp_path, then):
    sent = Sent(tmp_path / "program", OURS)
    (sent.folder / "script.py").write_text(PROGRAM.format(then=then))
    return sent


@pytest.mark.parametrize("options", [[], ["--children"]])
def test_the_processes_that_finish_what_was_killed(tmp_path, options):
    sent = program_beside_modules(tmp_path, "os.kill(os.getpid(), 9)")
    sent.run("run", "-o", str(tmp_path / "t"), *options, "script.py")
    wait_until(lambda: list((tmp_path / "t").rglob("manifest*.json")), 60)
    assert list((tmp_path / "t").rglob("manifest*.json"))
    assert not sent.ran


def test_the_process_that_makes_traces_of_dumps(tmp_path):
    sent = program_beside_modules(
        tmp_path,
        "import opscope\n"
        "with opscope.flight_recorder('5s', directory='dumps', max_memory='32MiB') as recorder:\n"
        "    torch.ones(3).add(1)\n"
        "    print(recorder.dump('here', wait=True).exists())\n",
    )
    done = run_python("script.py", cwd=sent.folder)
    assert done.stdout.split() == ["True"], done.stderr
    assert not sent.ran
