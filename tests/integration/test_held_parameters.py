"""What modules and optimizers hold: parameters, gradients and state, by name and address."""

import signal

import pytest
import torch

import opscope
from opscope.timeline.tree.node import PythonDetail


class Heap(torch.nn.Module):
    """Many parameters of many shapes in one module."""

    def __init__(self, count):
        super().__init__()
        for i in range(count):
            shape = [1 + i % 3] * (i % 7)
            self.register_parameter(f"part_{i}", torch.nn.Parameter(torch.zeros(shape)))

    def forward(self):
        """Nothing."""


def test_more_parameters_than_fit_in_one_block_of_the_arena():
    heap = Heap(5000)

    with opscope.profile(with_modules=True) as prof:
        heap()

    trace = prof.trace
    table, expected = trace.table("parameters"), dict(heap.named_parameters())
    assert [trace.names[name] for name in table["name"]] == list(expected)
    sizes = table.lists("sizes")
    assert [sizes[row] for row in range(len(table))] == [list(p.shape) for p in expected.values()]
    assert table["storage"].tolist() == [p.data_ptr() for p in expected.values()]


LEVELS = pytest.mark.parametrize("level", ["with_stack", "with_modules"])


class Interrupting(torch.nn.Parameter):
    """A time limit runs out while it is read."""

    @property
    def is_leaf(self):
        """As far as anybody is told."""
        while self.pending:
            signal.raise_signal(self.pending.pop())
        return True


@LEVELS
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, RuntimeError])
def test_a_handler_s_error_while_parameters_are_read_is_the_program_s(level, error):
    def interrupt(number, frame):
        raise error

    class Limited(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Interrupting(torch.zeros(3))
            self.weight.pending = [signal.SIGUSR1]

        def forward(self):
            return sum(number for number in range(9))

    limited, seen = Limited(), []
    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with opscope.profile(**{level: True}) as prof:
            try:
                limited()
            except error as raised:
                seen.append(raised)
            limited()
    finally:
        signal.signal(signal.SIGUSR1, previous)

    assert [type(raised) for raised in seen] == [error]
    trace = prof.trace
    names = [trace.names[name] for name in trace.table("parameters")["name"]]
    assert names == ["weight"], "read once, by the call after"


PARAMETER, GRADIENT, STATE = range(3)
OPTIMIZERS = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.1),
    "SGD with momentum": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
    "Adam at once": lambda groups: torch.optim.Adam(groups, foreach=True),
    "Adam one by one": lambda groups: torch.optim.Adam(groups, foreach=False),
    "AdamW with maxima": lambda groups: torch.optim.AdamW(groups, amsgrad=True),
}


def address(tensor):
    return tensor.untyped_storage().data_ptr()


def held(trace, owner, row, role):
    """(Number within its owner, name, storage) of what one module or optimizer holds in a role."""
    table, names = trace.table("parameters"), trace.names
    return [
        (int(table["parameter"][at]), names[table["name"][at]], int(table["storage"][at]))
        for at in range(len(table))
        if table[owner][at] == row and table["role"][at] == role
    ]


def details(trace, class_name):
    """What the calls of modules or optimizers of a class say, in order."""
    found = (node.detail for node in trace.tree().depth_first())
    return [d for d in found if isinstance(d, PythonDetail) and d.class_name == class_name]


@LEVELS
def test_modules_have_their_own_parameters_and_the_gradients_there_are(level):
    # GIVEN a model of which one layer has no gradients and one has no bias
    first, second = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2, bias=False)
    first.requires_grad_(False)
    model, x = torch.nn.Sequential(first, torch.nn.ReLU(), second), torch.rand(5, 4)
    model(x).sum().backward()

    with opscope.profile(**{level: True}) as prof:
        model(x)

    (outer,), (one, two) = (details(prof.trace, name) for name in ("Sequential", "Linear"))
    assert [d.address for d in (outer, one, two)] == [id(m) for m in (model, first, second)]
    holds = [held(prof.trace, "module", d.module, PARAMETER) for d in (outer, one, two)]
    assert holds == [
        [],
        [(0, "weight", address(first.weight)), (1, "bias", address(first.bias))],
        [(0, "weight", address(second.weight))],
    ]
    gradients = [held(prof.trace, "module", d.module, GRADIENT) for d in (one, two)]
    assert [[(row[0], row[2]) for row in rows] for rows in gradients] == [
        [],
        [(0, address(second.weight.grad))],
    ]


@LEVELS
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_optimizers_have_parameters_gradients_and_all_their_state(make, steps, level):
    # GIVEN an optimizer made while recording, with parameters in two groups
    layers = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
    with opscope.profile(**{level: True}) as prof:
        optimizer = make([{"params": list(layer.parameters())} for layer in layers])
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=False)
            layers[1](layers[0](torch.rand(5, 4))).sum().backward()
            optimizer.step()

    trace, parameters = prof.trace, [p for layer in layers for p in layer.parameters()]
    table = trace.table("optimizers")
    assert table["address"].tolist() == [id(optimizer)]
    assert [trace.names[name] for name in table["class_name"]] == [type(optimizer).__name__]
    expected = [(number, address(p)) for number, p in enumerate(parameters)]
    assert [row[::2] for row in held(trace, "optimizer", 0, PARAMETER)] == expected
    expected = [(number, address(p.grad)) for number, p in enumerate(parameters)]
    assert [row[::2] for row in held(trace, "optimizer", 0, GRADIENT)] == expected
    assert sorted(held(trace, "optimizer", 0, STATE)) == sorted(
        (number, name, address(value))
        for number, p in enumerate(parameters)
        for name, value in optimizer.state[p].items()
        if isinstance(value, torch.Tensor)
    )
