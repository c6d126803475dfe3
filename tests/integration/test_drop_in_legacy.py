"""torch.autograd.profiler_legacy under the drop-in: it stays torch's own."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="runs torch's legacy profiler")

from torch.autograd.profiler_legacy import profile as legacy_profile  # noqa: E402

import opscope.drop_in  # noqa: E402


def averages(**settings):
    weight = torch.ones(3, 3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with legacy_profile(**settings) as prof:
            (weight @ weight).sin().sum().backward()
    return {e.key: e.count for e in prof.key_averages(group_by_input_shape=True)}


@pytest.mark.parametrize("settings", [{}, {"record_shapes": True}, {"profile_memory": True}])
def test_it_records_what_it_records_alone(settings):
    averages()  # what happens once only is not compared
    alone = averages(**settings)
    with opscope.drop_in.install():
        assert averages(**settings) == alone
    assert alone["aten::mm"] >= 1


def test_one_profiler_at_a_time():
    with opscope.drop_in.install():
        with torch.profiler.profile(), pytest.raises(RuntimeError, match="already enabled"):
            legacy_profile().__enter__()
        with legacy_profile(), pytest.raises(RuntimeError, match="already enabled"):
            torch.profiler.profile().start()
