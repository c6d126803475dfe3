import pytest
import torch

import opscope
from opscope.columns import overloads
from opscope.columns.overloads import registered_overloads, registered_schema
from opscope.export import execution_trace_nodes


@pytest.mark.parametrize("name", ["step", "my::label", "autograd::engine::run: Mm", "aten::mm.out"])
def test_what_is_no_operator_has_none(name):
    assert registered_overloads(name) == ()


def test_an_operator_that_is_registered_later_is_found():
    assert registered_overloads("opscope_test::late") == ()
    library = torch.library.Library("opscope_test", "DEF")
    library.define("late(Tensor x) -> Tensor")
    try:
        assert registered_overloads("opscope_test::late") == ("",)
        assert str(registered_schema("opscope_test::late", "")).endswith("(Tensor x) -> Tensor")
    finally:
        library._destroy()


def test_a_recording_asks_nothing_behind_torchscripts_lock(monkeypatch, tmp_path):
    def refuse(*arguments):
        pytest.fail("a forked child may find this registry locked for ever")

    for name in ("_jit_get_schemas_for_operator", "_jit_get_all_schemas", "_get_schema"):
        monkeypatch.setattr(torch._C, name, refuse)
    overloads._overloads_by_name.clear()
    execution_trace_nodes._registered_text.cache_clear()
    overloads._registered_names.clear()

    with opscope.profile(record_shapes=True, profile_memory=True) as prof:
        torch.ones(3).add_(1)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))

    assert prof.trace.peak_memory().by_category
    assert "aten::copy_(" in str(execution_trace_nodes.schemas_of_events(prof.trace)[1])
