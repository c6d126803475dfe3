"""Every view works with parts of what can be recorded: each source alone, and all without each."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings

import pytest

import opscope
from opscope.errors import OpscopeError
from opscope.torch_api.activities import CPU_KINDS
from opscope.torch_api.drop_in.install import install

torch = pytest.importorskip("torch")

OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_modules")
OF_OPSCOPE = ("with_asyncio", "with_functions")
ANALYSES = (
    "findings", "account", "critical_path", "device_use", "compiled", "roofline", "peak_memory",
    "_repr_html_",
)  # fmt: skip


def alone(*options):
    return [(one,) for one in (*sorted(CPU_KINDS), *options)]


def without_each(*options):
    sources = [*sorted(CPU_KINDS), *options]
    return [tuple(other for other in sources if other != one) for one in sources]


def program():
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.profiler.record_function("part"):
        model(torch.ones(4, 8)).relu().sum().backward()
    optimizer.step()

    async def other():
        await asyncio.sleep(0)

    asyncio.run(other())
    gc.collect()


def recorded(profile, sources):
    kinds = [name for name in sources if name in CPU_KINDS]
    options = {name: True for name in sources if name not in CPU_KINDS}
    cpu = torch.profiler.ProfilerActivity.CPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[{cpu: kinds}], **options) as found:
            program()
    return found


def look_at_tables(profile):
    assert isinstance(profile.key_averages().table(), str)
    assert profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=3)
    for averages in (
        profile.key_averages(group_by_input_shape=True),
        profile.key_averages(group_by_stack_n=3),
    ):
        assert averages.table()
        assert all(one.self_cpu_time_total >= 0 for one in averages)
    assert all(str(event) for event in profile.events())
    assert profile.events().total_average() is not None


ALL = (*OPTIONS, *OF_OPSCOPE)


@pytest.mark.parametrize("sources", [*alone(*ALL), *without_each(*ALL)], ids="+".join)
def test_views_of_what_opscope_records(sources):
    profile = recorded(opscope.profile, sources)
    look_at_tables(profile)
    assert profile._repr_html_()
    for name in ANALYSES:
        with contextlib.suppress(OpscopeError):  # in words
            repr(getattr(profile.trace, name)())


@pytest.mark.parametrize("sources", without_each(*OPTIONS), ids="+".join)
def test_tables_of_what_the_drop_in_records(sources):
    with install():
        look_at_tables(recorded(torch.profiler.profile, sources))
