"""Compiled functions while they are profiled, on torch's profiler and on opscope's.

    python compiled_programs.py

prints as JSON what each program found, by profiler. A compiler's threads outlive what they
compiled, so this is a process of its own. What is compared is made anew for either profiler.
"""

import contextlib
import json
import warnings

import torch
import torch._dynamo.testing
import torch._inductor.config
from torch._dynamo.utils import counters

import opscope.drop_in

CPU = [torch.profiler.ProfilerActivity.CPU]


def names(prof, *parts):
    return [e.name for e in prof.events() if any(part in e.name for part in parts)]


def compiling():
    """What the compiler says of itself."""
    with torch.profiler.profile(activities=CPU) as prof:
        torch.compile(lambda x: x.sin() * 2, backend="aot_eager")(torch.ones(3))
    return sorted(set(names(prof, "(dynamo_timed)")))


def running():
    """Lookups and regions of a function that is broken in two, and compiled twice for shapes."""

    def broken(x, y):
        total = y.sum(dim=1)
        torch._dynamo.graph_break()
        return x * total

    compiled = torch.compile(broken, backend="eager")
    sizes = [(4, 4), (4, 8), (4, 4)]
    with torch.profiler.profile(activities=CPU) as prof:
        for rows, columns in sizes:
            compiled(torch.ones(rows), torch.ones(rows, columns))
    return names(prof, "Torch-Compiled Region"), len(names(prof, "TorchDynamo Cache Lookup"))


def undisturbed():
    """How often a function was compiled and broken, profiled in every way."""
    counter = torch._dynamo.testing.CompileCounter()

    def annotated(x):
        with torch.profiler.record_function("inside"):
            y = x.sin()
        return y + 1

    with torch.no_grad():
        compiled = torch.compile(annotated, backend=counter, fullgraph=True)
        counters.clear()
        compiled(torch.ones(3))
        for settings in ({}, {"record_shapes": True, "profile_memory": True}, {"with_stack": True}):
            with torch.profiler.profile(activities=CPU, **settings):
                compiled(torch.ones(3))
            compiled(torch.ones(3))
    return counter.frame_count, sum(counters["graph_break"].values()), len(counters["recompiles"])


def dynamic():
    """Shapes of what runs, where the compiled code has symbols for them."""
    function = torch.compile(
        lambda x, y, z: x @ y + z, backend="aot_eager", dynamic=True, fullgraph=True
    )
    shapes = []
    for rows in (15, 17):
        with torch.profiler.profile(activities=CPU, record_shapes=True) as prof:
            function(torch.ones(rows, 3), torch.ones(3, 5), torch.ones(rows, 5))
        shapes.append([e.input_shapes for e in prof.events() if e.name == "aten::mm"][-1])
    return shapes


def backward():
    """Which forward spans the backward of a compiled function belongs to."""
    weight = torch.ones(3, 3, requires_grad=True)
    compiled = torch.compile(lambda x: (x @ weight).sin().sum(), backend="aot_eager")
    compiled(torch.ones(2, 3)).backward()
    with torch.profiler.profile(activities=CPU, record_shapes=True) as prof:
        compiled(torch.ones(2, 3)).backward()
    forward = {
        e.sequence_nr for e in prof.events() if e.sequence_nr >= 0 and "Backward" not in e.name
    }
    ours = [e for e in prof.events() if "CompiledFunctionBackward" in e.name]
    return [(e.name, e.sequence_nr in forward, e.scope) for e in ours]


def inductor():
    """Kernels of inductor, and the graph they are in."""
    with torch._inductor.config.patch({"cpp.enable_kernel_profile": True}):
        compiled = torch.compile(lambda x, y: (x.sin() + y).relu(), backend="inductor")
        compiled(torch.ones(64), torch.ones(64))
        with torch.profiler.profile(activities=CPU) as prof:
            compiled(torch.ones(64), torch.ones(64))
    return names(prof, "cpp_fused", "CompiledFxGraph", "Torch-Compiled Region")


PROGRAMS = (compiling, running, undisturbed, dynamic, backward, inductor)


def main():
    warnings.simplefilter("ignore")
    found = {}
    running()  # torch 2.6 looks up functions of its own, too, until it knows that they are skipped
    for name, switch in (
        ("torch", contextlib.nullcontext),
        ("opscope", opscope.drop_in.install),
    ):
        with switch():
            for program in PROGRAMS:
                torch._dynamo.reset()
                found.setdefault(name, {})[program.__name__] = program()
    print("\n" + json.dumps(found))


main()
