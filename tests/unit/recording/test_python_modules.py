"""Calls of modules, on any interpreter and without torch."""

import contextlib
import weakref

import pytest

from opscope import _native
from support.record_python import PythonWindow, leaf

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")


class FakeModule:
    """Stands for nn.Module: what the recorder is told about is its __call__."""

    def __call__(self, *args):
        return self.forward(*args)

    def forward(self, *args):
        return leaf()


@pytest.fixture
def fake_modules():
    read = []
    _native.set_up_python(
        "", "", "", FakeModule.__call__, None, lambda m: read.append(m) or [], None
    )
    yield read
    _native.set_up_python("", "", "", *[None] * 4)


@pytest.mark.parametrize("wants", [("MODULES",), ("PYTHON",), ("PYTHON", "MODULES")])
def test_modules_whenever_their_class_was_made(fake_modules, wants):
    class Before(FakeModule):
        pass

    window = PythonWindow(*wants)

    class During(FakeModule):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    class Outer(FakeModule):
        def forward(self):
            return Before()(), During()()

    Outer()()
    with contextlib.suppress(TypeError):
        FakeModule.__call__()
    names = [name for root in window.end() for name in module_names(root)]
    assert names == ["nn.Module: Outer_0", "nn.Module: Before_0", "nn.Module: During_0"]
    assert len(fake_modules) == 3
    slots = [During.__call__, FakeModule.__call__]
    assert all(type(slot) is type(leaf) for slot in slots)


def module_names(call):
    names = [call.name] if call.name.startswith("nn.Module: ") else []
    for child in call.children:
        names += module_names(child)
    return names


def test_a_window_opened_inside_a_module(fake_modules):
    windows = []

    class Opening(FakeModule):
        def forward(self):
            windows.append(PythonWindow())

    Opening()()
    leaf()
    (found,) = [call for root in windows[0].end() for call in root.find("leaf")]
    roots = windows[0].decoded
    assert not found.unfinished
    assert roots["account"]["unmatched_ends"] == 0


def test_an_address_used_again_is_another_module(fake_modules):
    window = PythonWindow("MODULES")
    for _ in range(5):
        FakeModule()()
    window.end()
    assert len(window.decoded["tables"]["modules"]["address"]) == 5


def test_each_window_reads_a_module_s_parameters(fake_modules):
    module = FakeModule()
    first = PythonWindow("MODULES")
    module()
    second = PythonWindow("MODULES")
    module()
    module()
    second.close()
    first.close()
    assert fake_modules == [module, module]
    first.read()
    second.read()
    fake_modules.clear()


def test_modules_are_not_kept_alive(fake_modules):
    window = PythonWindow("MODULES")
    module = FakeModule()
    module()
    fake_modules.clear()
    reference = weakref.ref(module)
    del module
    assert reference() is None
    window.end()
