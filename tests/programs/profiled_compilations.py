"""Compiled functions that are profiled, and profiles that compiled functions use.

    python profiled_compilations.py

prints as JSON what each case found.
"""

import json
import threading
import warnings
from collections import Counter

import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

import opscope

X = torch.ones(3)
EVERYTHING = {
    "with_stack": True,
    "with_modules": True,
    "profile_memory": True,
    "record_shapes": True,
}


def counts(prof, *names):
    seen = Counter(event.name for event in prof.events())
    return [seen[name] for name in names]


def broken(x):
    with opscope.record_function("around a break"):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos() + 1


def looked_at_inside():
    """Profiles that a compiled function makes, and looks at."""

    def looks(x):
        y = x.sin()
        with opscope.profile(**EVERYTHING) as prof:
            z = y.cos()
        return z, counts(prof, "aten::sin", "aten::cos"), len(prof.key_averages().table())

    graphs = CompileCounter()
    compiled = torch.compile(looks, backend=graphs)
    compiled(X)
    once = graphs.frame_count
    found = [compiled(X)[1] for _ in range(3)]
    return found, graphs.frame_count - once


def switched_inside(prof=None):
    """A profile of the program's that a compiled function starts and stops."""
    prof = prof or opscope.profile(**EVERYTHING)

    def switches(x):
        y = x.sin()
        prof.start()
        z = y.cos()
        prof.stop()
        return z + 1

    graphs = CompileCounter()
    compiled = torch.compile(switches, backend=graphs)
    compiled(X)
    once, found = graphs.frame_count, []
    for _ in range(3):
        compiled(X)
        found.append(counts(prof, "aten::sin", "aten::cos"))
    return found, graphs.frame_count - once


def stepped_inside():
    """A schedule whose steps a compiled function ends."""
    found = []
    prof = opscope.profile(
        schedule=opscope.schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: found.append(counts(prof, "aten::sin")),
    )

    def steps(x):
        y = x.sin()
        prof.step()
        return y + 1

    graphs = CompileCounter()
    compiled = torch.compile(steps, backend=graphs)
    compiled(X)  # without the profile: only counts steps
    prof.step_num = 0
    once = graphs.frame_count
    with prof:
        for _ in range(8):
            compiled(X)
    return found, graphs.frame_count - once


def around():
    """What was compiled before, between and under profiles, and never again for them."""
    graphs = CompileCounter()
    compiled = torch.compile(broken, backend=graphs)
    compiled(X)
    once, found = graphs.frame_count, []
    for options in ({}, {"with_stack": True}, EVERYTHING):
        with opscope.profile(**options) as prof:
            for _ in range(10):
                compiled(X)
        found.append(counts(prof, "aten::sin", "aten::cos"))
        compiled(X)
    return found, graphs.frame_count - once


def threads():
    graphs = CompileCounter()
    compiled = torch.compile(broken, backend=graphs)
    compiled(X)
    once, found = graphs.frame_count, []

    def work():
        for _ in range(20):
            compiled(X)

    for options in ({}, EVERYTHING):
        workers = [threading.Thread(target=work) for _ in range(4)]
        with opscope.profile(**options) as prof:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        found.append(counts(prof, "aten::sin", "aten::cos"))
    return found, graphs.frame_count - once


def drop_in_inside():
    """The same of torch.profiler, which records with opscope."""
    from torch.profiler import profile

    import opscope.drop_in

    opscope.drop_in.install()
    return switched_inside(profile(with_stack=True))


CASES = (looked_at_inside, switched_inside, stepped_inside, around, threads, drop_in_inside)


def main():
    warnings.simplefilter("ignore")
    found = {}
    for case in CASES:
        torch._dynamo.reset()
        found[case.__name__] = case()
    print("\n" + json.dumps(found))


main()
