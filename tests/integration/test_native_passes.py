"""Of recorded programs native passes say what plain ways say, whatever happens in them."""

import threading

import pytest
import torch

import opscope
from support.plain_ways import assert_as_plain

ALL = {"with_stack": True, "profile_memory": True, "with_modules": True}


def network():
    inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    return torch.nn.Sequential(inner, inner, torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))


def train(steps, after_each=lambda: None):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(steps * 4, 8))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        after_each()


def with_exceptions_and_gradients_of_gradients():
    model = network()
    for step in range(6):
        try:
            with torch.profiler.record_function("in it"):
                out = model(torch.randn(4, 8))
                if step % 2:
                    raise ValueError
        except ValueError:
            continue
        grads = torch.autograd.grad(out.sum(), list(model.parameters()), create_graph=True)
        sum((grad * grad).sum() for grad in grads).backward()


def in_threads():
    threads = [threading.Thread(target=train, args=(7,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    with_exceptions_and_gradients_of_gradients()
    for thread in threads:
        thread.join()


def with_annotations_across_functions():
    def values():
        for _ in range(4):
            with torch.profiler.record_function("around a yield"):
                yield torch.ones(2)

    for value in values():
        (value + 1).sum().item()


@pytest.mark.parametrize("options", [{}, ALL, {"with_own_functions": True}], ids=str)
@pytest.mark.parametrize(
    "program",
    [
        lambda: train(9),
        with_exceptions_and_gradients_of_gradients,
        in_threads,
        with_annotations_across_functions,
        lambda: None,
    ],
    ids=["training", "exceptions", "threads", "annotations", "nothing"],
)
def test_recorded_programs(program, options):
    with opscope.profile(**options) as recorded:
        program()
    assert_as_plain(recorded.trace, memory_recorded=options.get("profile_memory", False))


def test_steps_with_pauses_and_collections_between():
    import gc
    import time

    def between():
        gc.collect()
        time.sleep(0.003)
        recorded.step()

    wanted = opscope.schedule(wait=1, warmup=1, active=5)
    with opscope.profile(schedule=wanted, with_stack=True, profile_memory=True) as recorded:
        train(8, between)
    assert_as_plain(recorded.trace, memory_recorded=True)
