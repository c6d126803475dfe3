"""torch's profiler, and what torch says of it, are the program's own while opscope records."""

import torch

import opscope
from support.processes import run_python
from support.torch_processes import run_torch

CPU = torch.profiler.ProfilerActivity.CPU

STATE = """
import torch, threading
def state():
    flags = (torch.autograd._profiler_enabled(), torch.autograd.profiler._is_profiler_enabled)
    return flags, str(torch._C._autograd._profiler_type())
def say(where):
    others = []
    thread = threading.Thread(target=lambda: others.append(state()))
    thread.start(); thread.join()
    print(where, state(), others)
def attempt(what):
    try:
        what()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
torch.ones(3).add(1)
say("outside")
attempt(torch.autograd._disable_profiler)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
    say("in a profile")
    attempt(lambda: torch.profiler.profile().start())
say("after it")
"""

LATE_ENDS = """
import gc, torch
from torch.profiler import ProfilerActivity, profile, record_function
for _ in range(8):
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        spans = [record_function("left open") for _ in range(50)]
        for span in spans:
            span.__enter__()
        torch.ones(3).add(1)
    del prof
    gc.collect()
    others = [bytearray(64 + size) for size in range(200)]
    for span in reversed(spans):
        span.__exit__(None, None, None)
print("done")
"""

FREES = """
import torch
kept = [torch.randn(1000) for _ in range(20)]
torch.ones(3).add(1)
while kept:
    kept.pop()
"""


def run(folder, program, *options, plain=False, run=run_torch, **environment):
    file = folder / "program.py"
    file.write_text(program)
    how = [] if plain else ["-m", "opscope", "run", *options, "-o", str(folder / "trace")]
    return run(*how, file, added=environment)


def test_torch_answers_what_it_would_alone(tmp_path):
    alone = run(tmp_path, STATE, plain=True)
    for drop_in, options in (("1", ()), ("0", ("--memory", "--shapes"))):
        recorded = run(tmp_path, STATE, *options, OPSCOPE_DROP_IN=drop_in)
        assert recorded.returncode == alone.returncode == 0, recorded.stderr
        assert recorded.stdout == alone.stdout


def test_spans_that_outlive_torchs_profile_write_to_nothing_that_is_gone(tmp_path):
    # torch's callbacks take whatever is in their thread's slot for their own profiler
    environment = {"OPSCOPE_DROP_IN": "0", "MALLOC_PERTURB_": "165"}
    done = run(tmp_path, LATE_ENDS, run=run_python, **environment)
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout


def test_torch_warns_of_no_memory_that_opscope_alone_asks_for(tmp_path):
    done = run(tmp_path, FREES, "--memory")
    assert [line for line in done.stderr.splitlines() if not line.startswith("opscope:")] == []
    ledger = opscope.load(tmp_path / "trace").ledger["allocations"]
    assert ledger["recorded"] > 0


def test_torchs_own_profiler_has_what_it_has_alone():
    def work():
        kept = torch.ones(1000)
        with torch._C._profiler._RecordFunctionFast("fast", [kept], {"given": 1}):
            kept.neg()

    def theirs():
        with torch.profiler.profile(activities=[CPU], profile_memory=True) as prof:
            work()
        return [(event.name, event.cpu_memory_usage) for event in prof.events()]

    alone = theirs()
    with opscope.profile(profile_memory=True, record_shapes=True) as ours:
        assert theirs() == alone
    names = [ours.trace.event_name(row) for row in range(len(ours.trace.events))]
    assert {"fast", "aten::neg"} <= set(names)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_a_function_of_the_programs_has_its_arguments_without_a_profiler_of_torchs():
    with opscope.profile(record_shapes=True) as prof:
        Doubled.apply(torch.ones(2, 3, requires_grad=True))
    (shapes,) = [event.input_shapes for event in prof.events() if event.name == "Doubled"]
    assert shapes == [[2, 3]]


def test_only_torchs_compiler_reads_the_flag_of_a_recording_that_the_program_did_not_begin():
    flag = "import torch.autograd.profiler as p; answer = p._is_profiler_enabled"
    recording = opscope.torch_api.profile_recording.ProfileRecording()
    recording.start()
    try:
        for name, expected in [("torch._dynamo.utils", True), ("lightning.pytorch", False)]:
            read = {"__name__": name}
            exec(flag, read)
            assert read["answer"] is expected
    finally:
        recording.stop()
    assert torch.autograd.profiler._is_profiler_enabled is False
