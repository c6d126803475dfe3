"""Functions with opscope's annotations, compiled in every way they are used.

    python annotated_compilations.py CASE ...

prints as JSON what each case found. torch's compiler is imported after opscope.
"""

import json
import sys
import warnings

import torch

import opscope  # isort: split

import torch._dynamo.testing

X = torch.ones(3)
MADE_BEFORE = opscope.record_function("made before")


def inside(x):
    with opscope.record_function("inside"):
        y = x.sin()
        with opscope.record_function("nested", "with arguments"):
            return y + 1


@opscope.record_function("decorated")
def decorated(x):
    return x * 2


def made_before(x):
    with MADE_BEFORE:
        return x - 1


def decorated_within(x):
    return opscope.record_function("decorated within")(lambda y: y.cos())(x)


def broken(x):
    with opscope.record_function("around a break"):
        y = x.sin()
        torch._dynamo.graph_break()
        return y + 1


class Annotated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.span = opscope.record_function("an attribute")

    @opscope.record_function("a method")
    def part(self, x):
        with self.span:
            return self.linear(x)

    def forward(self, x):
        with opscope.record_function("forward"):
            return self.part(x)


def recorded(function, *names):
    """Which of ``names`` are recorded while ``function`` runs."""
    with opscope.profile() as prof:
        function(X)
    seen = {event.name for event in prof.events()}
    return [name for name in names if name in seen]


def whole(function):
    """Whether it is one graph, with the result of the original."""
    counter = torch._dynamo.testing.CompileCounter()
    result = torch.compile(function, backend=counter, fullgraph=True)(X)
    return counter.frame_count, bool(torch.equal(result, function(X)))


def full_graphs():
    model = Annotated().requires_grad_(False)
    functions = (inside, decorated, made_before, decorated_within, model)
    return [whole(function) for function in functions]


def eager():
    model = Annotated()
    return [
        recorded(inside, "inside", "nested"),
        recorded(decorated, "decorated"),
        recorded(made_before, "made before"),
        recorded(model, "forward", "a method", "an attribute"),
    ]


def around():
    """Around a call of compiled code, and in what compiled code calls uncompiled."""
    compiled = torch.compile(inside, backend="eager")
    calls_eager = torch.compile(
        lambda x: torch._dynamo.disable(decorated)(x.sin()), backend="eager"
    )

    def program(x):
        with opscope.record_function("around"):
            return calls_eager(compiled(x))

    return recorded(program, "around", "decorated")


def break_inside():
    """Graphs made of a function that breaks in an annotation, and whether its result is right."""
    counter = torch._dynamo.testing.CompileCounter()
    result = torch.compile(broken, backend=counter)(X)
    return counter.frame_count, bool(torch.equal(result, broken(X)))


def fall_back():
    """A backend that fails: what it was to compile runs as it is written."""

    def fails(graph, inputs):
        raise RuntimeError("cannot compile")

    with torch._dynamo.config.patch(suppress_errors=True):
        return recorded(torch.compile(inside, backend=fails), "inside", "nested")


def kept():
    """As far as torch keeps its own, by a setting of newer releases."""
    setting = "capture_profiler_record_function"
    if not hasattr(torch._dynamo.config, setting):
        return None
    with torch._dynamo.config.patch({setting: True}):
        compiled = torch.compile(inside, backend="eager", fullgraph=True)
        compiled(X)
        return recorded(compiled, "inside", "nested")


def main():
    warnings.simplefilter("ignore")
    found = {}
    for case in sys.argv[1:]:
        torch._dynamo.reset()
        found[case] = globals()[case]()
    print("\n" + json.dumps(found))


main()
