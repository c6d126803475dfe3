"""Programs that torch.compile compiles, and which lines opscope says their kernels are of.

Run with names of cases; prints what each found as JSON.
"""

import contextlib
import json
import os
import sys
import threading

import torch

import opscope


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.second = torch.nn.Linear(16, 8)

    def forward(self, x):
        y = self.first(x)  # line: first
        y = torch.relu(y)  # line: relu
        y = self.norm(y)  # line: norm
        return self.second(y).softmax(-1)  # line: second


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def marks():
    """By number of the line what its comment calls it."""
    with open(__file__, encoding="utf-8") as file:
        lines = dict(enumerate(file, 1))
    return {n: text.split("# line: ")[1].strip() for n, text in lines.items() if "# line: " in text}


def described(trace):
    """What is called, of which lines and modules, in the order in which it was generated."""
    found, named = trace.compiled("all"), marks()
    calls = sorted(found.calls, key=lambda call: (call.graph, call.line))
    return {
        "graphs": found.graphs,
        "coverage": found.coverage,
        "adds_up": found.graphs_ns == found.own_ns + sum(call.time_ns for call in found.calls)
        and found.own_ns == sum(call.prepared_ns for call in found.calls),
        "calls": [
            [
                call.graph,
                call.callee,
                call.calls,
                sorted({named.get(line.line, str(line.line)) for line in call.lines}),
                sorted({line.module for line in call.lines}),
                call.known_from.name,
            ]
            for call in calls
        ],
    }


def recorded(function, times=1, **options):
    with opscope.profile(**options) as prof:
        for _ in range(times):
            function()
    return prof.trace


def training(**options):
    """Two blocks, forward and backward, which were compiled before the recording."""
    torch.manual_seed(0)
    network, x = torch.compile(Network()), torch.randn(4, 8)
    step = lambda: network(x).sum().backward()  # noqa: E731
    step()
    return described(recorded(step, times=3, **options))


def with_python_calls():
    return training(with_stack=True)


def with_functions():
    return training(with_functions=True)


def function_of(call):
    """A graph is called by a method of an object, and by a function in older torch."""
    return getattr(call, "__func__", call)


def left_as_it_was():
    """Runs during two recordings, one in the other; the generated module before, and after both."""
    from torch._inductor.codecache import PyCodeCache

    compiled, x = torch.compile(lambda x: (x + 1).sin() * 2), torch.randn(16)
    before = compiled(x)
    module = PyCodeCache.modules[-1]
    state = dict(vars(module)), function_of(module.call).__code__
    with opscope.profile() as outer:
        compiled(x)
        with opscope.profile() as inner:
            compiled(x)
        compiled(x)
    after = dict(vars(module)), function_of(module.call).__code__
    graphs = [prof.trace.compiled("all").graphs for prof in (outer, inner)]
    return [*graphs, after == state, bool(torch.equal(compiled(x), before))]


def in_a_thread():
    """Compiled by another thread, while it is recorded."""
    results = []
    compiled, x = torch.compile(lambda x: x.cos().add(1)), torch.randn(16)  # line: thread
    run = threading.Thread(target=lambda: results.append(compiled(x)))

    def run_it():
        run.start()
        run.join()

    return described(recorded(run_it))


def dynamic_shapes():
    compiled = torch.compile(lambda x: x.tanh() * 3, dynamic=True)  # line: dynamic
    compiled(torch.randn(5))
    return described(recorded(lambda: [compiled(torch.randn(n)) for n in (6, 7, 8)]))


def divided():
    return torch.compile(lambda a, b: torch.div(a, b, rounding_mode="floor"))


def by_zero():
    with contextlib.suppress(RuntimeError):
        divided()(torch.ones(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64))


def exception_inside():
    """A kernel that fails: its span and that of the graph say so, and later runs are recorded.

    None where a signal ends the process instead: kernels of older torch divide unchecked.
    """
    child = os.fork()
    if child == 0:
        by_zero()
        os._exit(0)
    if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        return None
    compiled = divided()
    one, zero = torch.ones(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    compiled(one, one)

    def run():
        try:
            compiled(one, zero)
        except RuntimeError:
            compiled(one, one)

    trace = recorded(run)
    kernels = [
        bool(raised)
        for row, raised in enumerate(trace.events["raised"])
        if trace.event_name(row).startswith(("cpp_", "Compiled graph"))
    ]
    return [kernels, trace.compiled("all").graphs]


def forked():
    """A child records what its parent compiled; the parent was recording when it forked."""
    compiled, x = torch.compile(lambda x: x.exp() + x), torch.randn(16)  # line: forked
    compiled(x)
    read, write = os.pipe()
    with opscope.profile():
        child = os.fork()
        if child == 0:
            found = described(recorded(lambda: compiled(x)))
            os.write(write, json.dumps(found).encode())
            os._exit(0)
        os.waitpid(child, 0)
    return json.loads(os.read(read, 1 << 16))


def nothing_compiled():
    without = recorded(lambda: torch.randn(4) + 1)
    return [described(without), without.compiled("all").was_recorded]


def wrapper_in_cpp():
    """The whole graph is one function in C++."""
    from torch._inductor import config

    with config.patch(cpp_wrapper=True):
        compiled, x = torch.compile(lambda x: x.sigmoid() @ x), torch.randn(8, 8)  # line: cpp
        compiled(x)
    return described(recorded(lambda: compiled(x)))


if __name__ == "__main__":
    print(json.dumps({case: globals()[case]() for case in sys.argv[1:]}))
