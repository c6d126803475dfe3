"""torch.autograd.profiler_legacy under the drop-in, beside torch's own."""

import json
import warnings

import pytest

torch = pytest.importorskip("torch", reason="compares with torch's legacy profiler")

from torch.autograd.profiler_legacy import profile as legacy_profile  # noqa: E402

import opscope.drop_in  # noqa: E402


def step(weight):
    with torch.autograd.profiler.record_function("mine"):
        loss = (weight @ weight).sin().sum()
    loss.backward()


def profiled(**settings):
    weight = torch.ones(3, 3, requires_grad=True)
    step(weight)  # what happens once only is not compared
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with legacy_profile(**settings) as prof:
            step(weight)
    return prof


def both(read, **settings):
    theirs = read(profiled(**settings))
    with opscope.drop_in.install():
        ours = read(profiled(**settings))
    return theirs, ours


def events(prof):
    first = min(e.sequence_nr for e in prof.function_events if e.sequence_nr >= 0)
    return sorted(
        (
            e.name,
            e.scope,
            e.input_shapes,
            e.sequence_nr - first if e.sequence_nr >= 0 else -1,
            e.cpu_memory_usage,
            e.is_legacy,
            e.is_async,
            e.cpu_parent.name if e.cpu_parent else "",
            [child.name for child in e.cpu_children],
        )
        for e in prof.function_events
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"record_shapes": True}, {"profile_memory": True}],
    ids=["plain", "shapes", "memory"],
)
def test_events_are_torchs(settings):
    theirs, ours = both(events, **settings)
    assert ours == theirs
    assert [name for name, *_ in ours if name == "mine"] == ["mine"]


def test_averages_and_tables_have_the_same_rows():
    def read(prof):
        counts = {e.key: e.count for e in prof.key_averages(group_by_input_shape=True)}
        return counts, prof.total_average().count, "aten::mm" in prof.table(row_limit=-1)

    theirs, ours = both(read, record_shapes=True)
    assert ours == theirs
    assert ours[2]


def test_files_have_the_same_spans(tmp_path):
    def read(prof):
        path = tmp_path / "legacy.json"
        prof.export_chrome_trace(str(path))
        found = json.loads(path.read_text())
        spans = found["traceEvents"] if isinstance(found, dict) else found
        return sorted(event["name"] for event in spans)

    theirs, ours = both(read)
    assert ours == theirs and "aten::mm" in ours


def test_it_is_refused_while_another_profile_records():
    with (
        opscope.drop_in.install(),
        torch.profiler.profile(),
        pytest.raises(RuntimeError, match="already enabled"),
    ):
        legacy_profile().__enter__()
