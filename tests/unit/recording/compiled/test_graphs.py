"""Graphs are recorded while somebody listens, whatever comes in between."""

import types

import pytest

from opscope.recording.compiled import graphs
from support.interruptions import places


@pytest.fixture
def modules(tmp_path, monkeypatch):
    found = []
    for number in range(5):
        file = tmp_path / f"graph{number}.py"
        file.write_text("def call(args):\n    return [args[0] + 1]\n")
        module = types.ModuleType(file.stem)
        module.__file__ = str(file)
        exec(compile(file.read_text(), file, "exec"), module.__dict__)
        found.append(module)
    monkeypatch.setattr(graphs, "_loaded_modules", lambda: iter(list(found)))
    return found


def is_recorded(module):
    return module.call.__code__.co_name == "call (recorded)"


def listen(window):
    graphs.begin_listening(window)
    graphs.end_listening(window)


def test_they_are_as_they_were_when_no_recording_runs(modules):
    before = [(module.call.__code__, sorted(vars(module))) for module in modules]
    graphs.begin_listening(1)
    graphs.begin_listening(2)
    assert all(map(is_recorded, modules))
    graphs.end_listening(1)
    assert all(map(is_recorded, modules)) and modules[0].call([1]) == [2]
    graphs.end_listening(2)
    assert [(module.call.__code__, sorted(vars(module))) for module in modules] == before


def test_a_module_that_is_gone_keeps_no_other_from_being_left(modules):
    graphs.begin_listening(1)
    del modules[0]
    graphs.end_listening(1)
    assert not any(map(is_recorded, modules))


def test_a_handler_that_listens_in_the_middle_of_listening(modules):
    for place in places(lambda: listen(1), lambda: listen(2), step=5):
        assert not any(map(is_recorded, modules)), place
        assert all(module.call([place]) == [place + 1] for module in modules), place
    graphs.begin_listening(3)
    assert all(map(is_recorded, modules))
    graphs.end_listening(3)


def test_a_handler_that_begins_to_listen_in_the_middle_of_an_end_harms_no_program(modules):
    for place in places(lambda: listen(1), lambda: graphs.begin_listening(2), step=5):
        assert all(module.call([place]) == [place + 1] for module in modules), place
        graphs.end_listening(2)
        assert not any(map(is_recorded, modules)), place
