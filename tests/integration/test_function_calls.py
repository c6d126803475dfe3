"""Calls of Python functions alone: with torch, and with code that torch.compile makes."""

from typing import Any

import numpy as np
import torch

import opscope
from support.recorded import names


class Counter:
    """A backend that runs graphs as they are; torch's own counter takes seconds to import."""

    frame_count = 0

    def __call__(self, graph: torch.fx.GraphModule, _: object) -> Any:
        self.frame_count += 1
        return graph.forward


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def test_functions_modules_and_optimizers_are_as_with_stacks_but_for_c_functions() -> None:
    model = torch.nn.Sequential(Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    with opscope.profile(with_stack=True) as complete:
        train(model, optimizer)
    with opscope.profile(with_functions=True) as functions:
        train(model, optimizer)
    expected = names(complete.trace)
    is_c = complete.trace.events["kind"] == 3
    own = [name for name, c in zip(expected, is_c, strict=True) if not c and "gc: " not in name]
    assert len(own) > 30
    assert [name for name in names(functions.trace) if "gc: " not in name] == own
    assert not np.any(functions.trace.events["kind"] == 3)


LIBRARY = """
def fit(step):
    for number in range(3):
        call(step, number)


def call(step, number):
    step(number)
"""


def test_a_line_is_that_of_its_function_where_a_library_began_before_the_window() -> None:
    library: dict[str, Any] = {}
    exec(compile(LIBRARY, "/site-packages/trainer.py", "exec"), library)
    inner = opscope.profile(with_own_functions=True)

    def step(number: int) -> None:
        if number == 0:
            inner.start()
        torch.ones(2)

    def program() -> None:
        library["fit"](step)

    with opscope.profile(with_own_functions=True):
        program()
    inner.stop()
    calls, frames, names = (
        inner.trace.table("python_calls"), inner.trace.table("frames"), inner.trace.names
    )  # fmt: skip
    steps = [
        (names[frames["function"][caller]], int(line))
        for frame, caller, line in zip(
            calls["frame"], calls["caller"], calls["caller_line"], strict=True
        )
        if names[frames["function"][frame]] == "step"
    ]
    # Where libraries are not heard at all, it is the program that called.
    assert len(steps) == 3
    assert set(steps) <= {("fit", 4), ("program", program.__code__.co_firstlineno + 1)}


def test_what_torch_compile_made_is_neither_lost_nor_made_again() -> None:
    counter = Counter()

    @torch.compile(backend=counter)
    def compiled(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1

    x = torch.ones(3)
    expected = compiled(x)
    assert counter.frame_count == 1
    with opscope.profile(with_functions=True) as prof:
        assert torch.equal(compiled(x), expected)
        assert torch.equal(compiled(x), expected)
    assert torch.equal(compiled(x), expected)
    assert counter.frame_count == 1
    assert any(name.endswith(": compiled") for name in names(prof.trace))


def test_what_is_compiled_while_functions_are_recorded_works_then_and_later() -> None:
    counter = Counter()

    @torch.compile(backend=counter)
    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        print(end="")  # a graph break
        return y + 1

    x = torch.ones(3)
    with opscope.profile(with_functions=True):
        first = compiled(x)
    made = counter.frame_count
    assert made >= 2
    with opscope.profile(with_functions=True):
        assert torch.equal(compiled(x), first)
    assert torch.equal(compiled(x), first)
    assert counter.frame_count == made


def test_a_recording_that_begins_and_ends_inside_compiled_code() -> None:
    profiles = []

    def begin() -> None:
        profiles.append(opscope.profile(with_functions=True))
        profiles[-1].start()

    def end() -> None:
        profiles[-1].stop()

    @torch.compile(backend="eager")
    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        torch._dynamo.disable(begin)()
        y = torch.sin(y)
        torch._dynamo.disable(end)()
        return y + 1

    x = torch.ones(3)
    expected = torch.sin(torch.relu(x)) + 1
    for _ in range(3):
        assert torch.equal(compiled(x), expected)
    for prof in profiles:
        assert "aten::sin" in names(prof.trace)
    with opscope.profile(with_functions=True) as prof:
        train(model := Block(), torch.optim.SGD(model.parameters(), lr=0.1))
    assert any(name.endswith(": train") for name in names(prof.trace))
