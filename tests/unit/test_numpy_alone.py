"""With NumPy and torch alone: recording and most questions work; the rest says what to install."""

import pytest

from support.processes import run_python
from support.random_program import random_program

HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "duckdb", "rich", "pandas", "polars"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
RECORDED = (
    HIDING
    + """
import torch
import opscope
model = torch.nn.Linear(8, 8)
with opscope.profile(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True,
                     with_flops=True) as prof:
    for _ in range(3):
        model(torch.randn(2, 8)).sum().backward()
        prof.step()
    for _ in range(21_000):
        torch.is_grad_enabled()
        torch.ones(1)
trace = prof.trace
"""
)
WORKS = """
import os, tempfile
os.chdir(tempfile.mkdtemp())
assert "aten::addmm" in prof.key_averages(group_by_input_shape=True).table()
prof.export_chrome_trace("a.json")
prof.export_chrome_trace("a.json.gz")
assert len(opscope.load("a.json").events) == len(opscope.load("a.json.gz").events) > 0
prof.export_perfetto("a.pftrace")
prof.export_stacks("a.txt")
prof.export_report("a.html")
prof.export_memory_timeline("a.memory.html")
opscope.diff(trace, trace)
with opscope.profile() as large:
    for _ in range(7_000):
        torch.ones(1)
large.export_chrome_trace("b.json")
assert len(opscope.load("b.json").events) == len(large.trace.events) > 20_000
for question in ("tree", "findings", "account", "critical_path", "peak_memory", "compiled"):
    getattr(trace, question)()
repr(trace)
print("works", *(name for name in ("pyarrow", "duckdb", "rich") if name in sys.modules))
"""
REFUSED = """
refused = {
    "save": lambda: trace.save("a.opscope"),
    "load": lambda: opscope.load(sys.argv[1]),
    "to_arrow": trace.to_arrow,
    "to_pandas": trace.to_pandas,
    "sql": lambda: trace.sql("select 1"),
}
for name, ask in refused.items():
    try:
        ask()
    except opscope.MissingDependencyError as error:
        print(name, str(error).rpartition(" Run: ")[2])
"""


def run(program, *arguments):
    return run_python("-c", program, *arguments)


def test_most_needs_numpy_alone_and_the_rest_says_what_to_install(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    random_program(0, 9).save(tmp_path / "a.opscope")
    done = run(RECORDED + WORKS + REFUSED, str(tmp_path / "a.opscope"))
    first, *refused = done.stdout.splitlines()
    assert first == "works", done.stderr
    said = dict(line.split(" ", 1) for line in refused)
    install = "python -m pip install pyarrow"
    assert said.pop("sql") in (install, "python -m pip install duckdb"), done.stderr
    assert said.pop("to_pandas") in (
        install,
        "pip install pandas (or use trace.to_arrow(), which needs no further package).",
    )
    assert said == dict.fromkeys(("save", "load", "to_arrow"), install)


def test_recording_says_that_it_needs_torch():
    program = HIDING.replace('"pyarrow"', '"torch"') + (
        "import opscope\n"
        "try:\n    opscope.profile()\nexcept opscope.MissingDependencyError as error:\n"
        "    print(error)"
    )
    done = run(program)
    assert done.stdout.startswith("Recording a program needs torch"), done.stderr


@pytest.mark.parametrize("command", ["run", "summary", "doctor"])
def test_commands_say_what_to_install(command):
    done = run(HIDING + "from opscope.cli import main; main()", command, "a")
    assert done.returncode == 1
    assert (
        f"opscope: `opscope {command}` needs rich" in done.stderr or "needs pyarrow" in done.stderr
    )
    assert "python -m pip install " in done.stderr and "Traceback" not in done.stderr


def test_a_module_of_the_programs_that_is_missing_is_its_own_affair():
    hidden = HIDING.replace('"pyarrow", ', '"opscope.cli.summary", ')
    broken = hidden.replace('name.partition(".")[0] in', "name in")
    done = run(broken + "from opscope.cli import main; main()", "summary", "a")
    assert "Traceback" in done.stderr
