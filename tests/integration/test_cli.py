"""``opscope run`` around real torch programs: they end as they would alone, and are recorded."""

import json
import re
import shlex
import signal
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import opscope
from opscope.analysis.source_lines import program_lines
from opscope.recording.bridge import bridge
from support.processes import run_python
from support.recorded import names
from support.torch_processes import run_torch

ADDITIONS = """
import os, signal, sys, threading
import torch
x = torch.zeros(2)
for _ in range(10):
    x = x + 1
"""

INTERRUPT = """
# A process inherits whether a signal is blocked or ignored.
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
raise SystemExit(f"not interrupted: {signal.getsignal(signal.SIGINT)} {signal.sigpending()}")
"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def own_words(self):
        return [line for line in self.err.splitlines() if line.startswith("opscope: ")]

    def trace(self, name="script.opscope"):
        return opscope.load(self.folder / name)

    def names(self, name="script.opscope"):
        return names(self.trace(name))


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs a program alone (``opscope=None``) or through ``opscope run`` with options."""
    for variable in ("WORLD_SIZE", "RANK", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)

    def call(program, *arguments, options=(), environment=None, alone=False, run=run_torch, **more):
        (tmp_path / "script.py").write_text(textwrap.dedent(program))
        start = [] if alone else ["-m", "opscope", "run", *options]
        command = [*start, "script.py", *arguments]
        done = run(*command, cwd=tmp_path, added=environment, **more)
        return Outcome(done.returncode, done.stdout, done.stderr, tmp_path)

    return call


def test_standard_output_is_the_programs_alone(execute):
    program = f"""{ADDITIONS}
sys.stdout.buffer.write(bytes(range(256)))
print(sys.argv, __name__, __file__, x.tolist())
"""
    arguments, as_bytes = ("a", "--shapes", "b"), {"run": run_python, "encoding": "latin-1"}
    alone = execute(program, *arguments, alone=True, **as_bytes)
    recorded = execute(program, *arguments, options=("-o", "two words.opscope"), **as_bytes)
    assert recorded.out == alone.out
    assert (alone.code, recorded.code) == (0, 0)
    assert recorded.names("two words.opscope").count("aten::add") == 10
    assert f"trace written to {recorded.folder / 'two words.opscope'}" in recorded.err
    said = recorded.own_words
    assert sum("verdict: " in line for line in said) == 1 and "opscope summary" in said[-1]
    (time,) = [line for line in said if "most time: " in line]
    assert re.search(r"most time: aten::\w+ [\d.]+%", time)
    assert "Self CPU" not in recorded.err
    # Commands to copy work in a shell.
    (look,) = re.findall("details: `(.*)`", recorded.err)
    command, name, folder = shlex.split(look)
    assert (command, name) == ("opscope", "summary")
    assert Path(folder).name == "two words.opscope" and Path(folder).is_dir()


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("raise ValueError('no')", 1, "ValueError: no\n"),
        (INTERRUPT, -signal.SIGINT, "KeyboardInterrupt\n"),
    ],
)
def test_however_it_ends_it_is_recorded(execute, end, code, said):
    recorded = execute(f"{ADDITIONS}\nprint('before the end', flush=True)\n{end}\n")
    assert (recorded.code, recorded.out) == (code, "before the end\n"), recorded.err
    traceback, _, _ = recorded.err.partition(said)
    assert traceback.startswith("Traceback (most recent call last):\n  File ")
    files = re.findall(r'^  File "(.*)", line', traceback, re.MULTILINE)
    assert [Path(file).name for file in files] == ["script.py"]  # the program's frames alone
    assert recorded.names().count("aten::add") == 10


def test_module(execute, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "training.py").write_text(f"{ADDITIONS}\nprint(sys.argv[1:])\n")
    command = ("run", "--table", "-o", "out", "-m", "package.training", "-m", "--output", "x")
    done = run_torch("-m", "opscope", *command, cwd=tmp_path)
    assert done.stdout == "['-m', '--output', 'x']\n"
    assert names(opscope.load(tmp_path / "out")).count("aten::add") == 10
    assert "Self CPU" in done.stderr


def test_code_of_standard_input(tmp_path):
    command = ("run", "--stack", "-", "-c", "--why", "-")
    given = f"{ADDITIONS}print(sys.argv)"
    done = run_torch("-m", "opscope", *command, cwd=tmp_path, input=given)
    assert done.stdout == "['-', '-c', '--why', '-']\n"
    trace = opscope.load(tmp_path / "stdin.opscope")
    assert names(trace).count("aten::add") == 10
    loop = next(one for one in program_lines(trace) if one.calls == 10)
    assert (loop.file, loop.line) == ("<stdin>", 6)


def test_the_program_may_set_up_torch_before_importing_it(execute):
    program = """
import os
import re
import shlex
os.environ["OMP_NUM_THREADS"] = "1"
import torch
print(torch.get_num_threads())
"""
    environment = {"OMP_NUM_THREADS": "2"}
    assert execute(program, environment=environment, run=run_python).out == "1\n"


def test_a_program_without_torch(execute):
    recorded = execute("import sys\nprint('done')\nsys.exit(4)", run=run_python)
    assert (recorded.code, recorded.out) == (4, "done\n")
    assert "did not import torch" in recorded.err
    assert not (recorded.folder / "script.opscope").exists()


def test_what_to_record(execute):
    options = ["--shapes", "--memory", "--flops", "--table"]
    options += ["--chrome", "out/trace.json.gz", "-o", "out/t"]
    program = "import torch\ntorch.ones(20, 30) @ torch.ones(30, 40)"
    recorded = execute(program, options=options)
    trace = recorded.trace("out/t")
    (mm,) = [e for e in range(len(trace.events)) if trace.event_name(e) == "aten::mm"]
    tensors = trace.table("tensors")
    shapes = [tensors.lists("sizes")[row] for row in (tensors["event"] == mm).nonzero()[0]]
    assert shapes == [[20, 30], [30, 40]]
    assert len(trace.table("allocations")) > 0
    assert "FLOPs" in recorded.err
    assert (recorded.folder / "out" / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert "Chrome trace written to" in recorded.err


TRAINING = """
import torch
model = torch.nn.Linear(2, 1)
generator = torch.optim.SGD(model.parameters(), lr=0.1)
discriminator = torch.optim.AdamW(model.parameters())
for step in range(9):
    model(torch.ones(4, 2)).sum().backward()
    generator.step()
    discriminator.step()
"""


def test_threads_forked_children_and_torchs_profiler_of_a_program(execute):
    program = f"""{ADDITIONS}
def late():
    main.join()
    torch.ones(3).sin()
main = threading.main_thread()
child = os.fork()
if child == 0:
    torch.ones(2).cos()
    sys.exit(3)
print(os.waitpid(child, 0)[1] >> 8)
with torch.profiler.profile() as inner:
    torch.ones(3).tan()
print([event.name for event in inner.events() if "tan" in event.name])
threading.Thread(target=late).start()
"""
    recorded = execute(program)
    assert (recorded.code, recorded.out) == (0, "3\n['aten::tan']\n"), recorded.err
    assert sum("trace written" in line for line in recorded.own_words) == 1
    assert {"aten::sin", "aten::tan"} <= set(recorded.names())
    assert "aten::cos" not in recorded.names()


def test_ranks_of_a_job_share_a_folder(execute):
    for rank in ("0", "1"):
        environment = {"WORLD_SIZE": "2", "RANK": rank}
        options = ["--output", "job", "--chrome", "job.json", "--table"]
        program = f"import torch\ntorch.ones({rank} + 2)"
        recorded = execute(program, options=options, environment=environment)
        assert ("Self CPU" in recorded.err) == (rank == "0")
        assert ("most time: " in recorded.err) == (rank == "0")
    for rank in (0, 1):
        trace = opscope.load(recorded.folder / "job", rank=rank)
        assert "aten::ones" in names(trace)
        assert (recorded.folder / f"job-rank-{rank}.json").exists()


def test_schedule_counts_steps_of_the_first_optimizer(execute):
    options = ["--schedule", "1,1,2,2", "--chrome", "trace.json", "--table", "--stack"]
    recorded = execute(TRAINING, options=options)
    assert recorded.code == 0, recorded.err
    steps = [
        sorted({name for name in recorded.names(f"script.opscope/cycle-{n}") if "Profiler" in name})
        for n in (1, 2)
    ]
    assert steps == [
        ["ProfilerStep#2", "ProfilerStep#3"],
        ["ProfilerStep#6", "ProfilerStep#7"],
    ]
    trace = recorded.trace("script.opscope/cycle-1")
    around = [  # a step's span begins and ends between spans of optimizers
        int(parent)
        for name, parent in zip(names(trace), trace.events["parent"], strict=True)
        if name.startswith("ProfilerStep#")
    ]
    assert not any("Optimizer" in trace.event_name(row) for row in around if row >= 0)
    with open(recorded.folder / "trace-cycle-2.json") as file:
        assert json.load(file)["traceEvents"]
    cycles = sorted(path.name for path in (recorded.folder / "script.opscope").iterdir())
    assert cycles == ["cycle-1", "cycle-2"]
    hides_nothing_of_steps(trace)


def hides_nothing_of_steps(trace):
    """Counting them is in no call."""
    calls, frames = trace.table("python_calls"), trace.table("frames")
    files = [trace.names[file] for file in frames["file"]]
    functions = [trace.names[function] for function in frames["function"]]
    callers = {}
    for frame, caller, line in zip(
        calls["frame"], calls["caller"], calls["caller_line"], strict=True
    ):
        if frame >= 0 and caller >= 0:
            callers.setdefault(functions[frame], set()).add((Path(files[caller]).name, int(line)))
    assert "_single_tensor_sgd" in callers or "_multi_tensor_sgd" in callers
    # The script called it, though the window opened within the call before, and nothing of ours is
    # in between.
    assert {file for file, _line in callers["wrapper"]} == {"script.py"}
    assert not any("opscope" in file for file in files)
    assert not any("count" in function for function in functions)


def test_a_schedule_that_never_records_says_so(execute):
    recorded = execute(TRAINING, options=["--schedule", "100,1,1"])
    assert recorded.code == 0
    assert "before the first active step" in recorded.err
    assert not (recorded.folder / "script.opscope").exists()


def test_a_place_that_disappears_while_the_program_runs(execute):
    program = f"""{ADDITIONS}
import shutil
shutil.rmtree("out")
open("out", "w").close()
"""
    recorded = execute(program, options=["--output", "out/trace"])
    assert recorded.code == 0
    assert "to another folder" in recorded.err
    (line,) = [line for line in recorded.own_words if "trace written to " in line]
    rescued = Path(line.partition("trace written to ")[2])
    assert recorded.folder not in rescued.parents
    assert names(opscope.load(rescued)).count("aten::add") == 10


def without_compiler(tmp_path):
    (tmp_path / "empty").mkdir()
    return {
        "PATH": str(tmp_path / "empty"),
        "CXX": "",
        "OPSCOPE_CACHE": str(tmp_path / "cache"),
    }


def test_no_compiler_and_no_bridge(execute, tmp_path):
    recorded = execute("print('must not run')", environment=without_compiler(tmp_path))
    assert recorded.code == 1
    assert recorded.out == ""
    assert len(recorded.own_words) == 1 and "no C++ compiler" in recorded.err
    assert "Traceback" not in recorded.err


def command(*arguments, environment=None):
    return run_torch("-m", "opscope", *arguments, added=environment)


def test_doctor():
    done = command("doctor")
    assert done.returncode == 0, done.stdout
    words = map(str.split, done.stdout.splitlines())
    lines = {one[0]: one[1] for one in words if len(one) > 1}  # a long path has a line of its own
    assert lines["torch"] == lines["recording"] == lines["operators"] == lines["shapes"] == "ok"
    assert re.search(r"Python calls +ok", done.stdout)
    assert re.search(r"nn.Module calls +ok", done.stdout)
    if torch.version.cuda is None:
        assert re.search(r"GPU activity +no +this torch was built without CUDA", done.stdout)


def test_doctor_without_a_compiler(tmp_path):
    done = command("doctor", environment=without_compiler(tmp_path))
    assert done.returncode == 1
    assert "no C++ compiler found" in done.stdout
    assert "Traceback" not in done.stderr


def test_build_says_where_the_bridge_is():
    bridge.load()
    done = command("doctor", "--build")
    assert done.returncode == 0 and "already built" in done.stderr
    path = Path(done.stderr.split("already built: ")[1].strip())
    assert path.is_file()


def test_build_in_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    done = command("doctor", "--build", environment={"OPSCOPE_CACHE": str(tmp_path / "file")})
    assert done.returncode == 1
    assert "OPSCOPE_CACHE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_only_collects_garbage_while_it_is_recorded(execute):
    recorded = execute("import torch, gc\ngc.collect()\n")
    assert recorded.code == 0
    assert "ran no torch operator" in recorded.err and "Traceback" not in recorded.err
    assert len(recorded.trace().events) > 0


def test_collections_of_the_program_need_not_look_through_opscope(execute):
    program = """
import gc
modules = {getattr(one, "__module__", None) for one in gc.get_objects() if callable(one)}
print(sorted(str(name) for name in modules if str(name).startswith(("opscope.cli", "pyarrow"))))
"""
    assert execute(program, run=run_python).out == "[]\n"


@pytest.mark.parametrize(("option", "between"), [("--own-stack", 0), ("--c-calls", 1)])
def test_python_calls_of_the_program_and_of_nothing_else(execute, option, between):
    recorded = execute(
        """
        import torch
        def outer(n): return inner(n)
        def inner(n): return torch.ones(n)
        for n in range(3): outer(n)
        """,
        options=[option, "--no-table"],
    )
    trace = recorded.trace()
    found, parent = recorded.names(), trace.events["parent"]
    inner = [row for row, name in enumerate(found) if name.endswith(": inner")]
    assert len(inner) == 3
    assert all(found[parent[row]].endswith(": outer") for row in inner)
    assert all(found[parent[parent[row]]].endswith("script.py(1): <module>") for row in inner)
    ones = [row for row, name in enumerate(found) if name == "aten::ones"]
    for row in ones:
        around = parent[row]
        for _ in range(between):  # torch.ones itself, a C function
            assert found[around].startswith("<built-in method ones")
            around = parent[around]
        assert around in inner
    assert not any("/opscope/cli/" in name or "opscope/launch/" in name for name in found)
