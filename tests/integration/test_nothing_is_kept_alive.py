"""After a recording nothing the program made lives any longer than it would have without."""

import contextlib
import gc
import sys
import weakref

import pytest
import torch

import opscope

EVERY_OPTION = {
    "with_stack": True,
    "with_modules": True,
    "record_shapes": True,
    "profile_memory": True,
}
LEVELS = pytest.mark.parametrize("options", [{}, EVERY_OPTION], ids=["operators", "everything"])


class Marker:
    """Something a weak reference can watch."""


@pytest.fixture(autouse=True)
def without_collections():
    """What is only kept by a cycle counts as kept."""
    gc.disable()
    yield
    gc.enable()


@LEVELS
def test_variables_of_functions_around_and_in_the_recording_are_released(options):
    profiles = []

    def make():
        outside = Marker()

        def outer():
            assert isinstance(outside, Marker)
            between, inside = Marker(), []

            def inner(argument):
                assert isinstance(between, Marker)
                local = Marker()
                inside.extend((weakref.ref(local), weakref.ref(argument)))
                return local

            with opscope.profile(**options) as prof:
                inner(Marker())
                # THEN arguments, variables and results are gone before it even stops
                assert [reference() for reference in inside] == [None, None]
            profiles.append(prof)
            return weakref.ref(between)

        return outer, weakref.ref(outside)

    outer, outside = make()
    between = outer()
    # THEN what the recorded function closed over is gone, though its recording is not
    assert between() is None
    assert outside() is not None
    del outer
    assert outside() is None
    functions = [event.name.rpartition(": ")[2] for event in profiles[0].events()]
    assert functions.count("inner") == ("with_stack" in options)


@LEVELS
@pytest.mark.parametrize("looked_at", [False, True], ids=["not looked at", "looked at"])
def test_models_optimizers_and_tensors_are_released(options, looked_at):
    def train(recording):
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x = torch.rand(4, 3)
        with recording:
            model(x).sum().backward()
            optimizer.step()
        weight, gradient = model[0].weight, model[0].weight.grad
        watched = (model, model[0], optimizer, x, weight, gradient, weight.untyped_storage())
        return [weakref.ref(thing) for thing in watched]

    def alive(references):
        return [reference() is not None for reference in references]

    # GIVEN what lives on without a recording: of the first optimizer of a process, all does
    train(contextlib.nullcontext())
    expected = alive(train(contextlib.nullcontext()))

    prof = opscope.profile(**options)
    references = train(prof)
    if looked_at:
        assert len(prof.trace.events) > 0
    assert alive(references) == expected
    assert "aten::addmm" in {event.name for event in prof.events()}


@LEVELS
def test_counts_of_references_are_what_they_were(options):
    def called(tensor):
        return module(tensor)

    module, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    watched = [called, called.__code__, module, type(module), module.weight, x, Marker]
    watched += [torch.nn.Module.__call__, called.__globals__, torch.nn.Linear.forward.__code__]

    def counts():
        return [sys.getrefcount(thing) for thing in watched]

    def profile_once():
        with opscope.profile(**options) as prof:
            called(x)
        assert len(prof.trace.events) > 0

    profile_once()
    before = counts()
    for _ in range(20):
        profile_once()
    assert counts() == before
