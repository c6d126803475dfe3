"""A Chrome JSON that torch.profiler itself wrote, imported and stored."""

import collections
import json

import pytest

from opscope.columns.schema import EventKind
from support.loaded import load_trace

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")

STEPS = 12


def train(profiler):
    """A small training loop; every step is marked."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        with torch.profiler.record_function("forward"):
            output = model(torch.randn(8, 1, 8, 8))
            loss = torch.nn.functional.cross_entropy(output, torch.randint(0, 10, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cat([output, output])
        profiler.step()


def record(path, **options):
    with torch.profiler.record_function("first use imports modules; keep that out of the profile"):
        pass
    activities = [torch.profiler.ProfilerActivity.CPU]
    schedule = torch.profiler.schedule(wait=0, warmup=0, active=STEPS, repeat=1)
    with torch.profiler.profile(activities=activities, schedule=schedule, **options) as profiler:
        train(profiler)
    profiler.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The JSON's events and the trace, of a run with every option on."""
    path = tmp_path_factory.mktemp("torch") / "trace.json"
    events = record(path, record_shapes=True, profile_memory=True, with_stack=True)
    return events, load_trace(path)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """The JSON's path and the trace, of a run with shapes."""
    path = tmp_path_factory.mktemp("torch") / "trace.json"
    record(path, record_shapes=True)
    return path, load_trace(path)


def spans(events):
    return [e for e in events if e["ph"] == "X" and e.get("cat") != "Trace"]


def test_spans_callers_and_nesting_are_torchs(everything):
    events, trace = everything
    written = collections.Counter(e["name"] for e in spans(events))
    read = collections.Counter(trace.event_name(i) for i in range(len(trace.events)))
    assert read == written
    kinds = collections.Counter(EventKind(k).name for k in trace.events["kind"].tolist())
    assert kinds["OPERATOR"] == sum(e["cat"] == "cpu_op" for e in spans(events))
    assert kinds["ANNOTATION"] == sum(e["cat"] == "user_annotation" for e in spans(events))
    assert kinds["MODULE_CALL"] == STEPS * 6
    assert kinds["PYTHON_CALL"] > 0 < kinds["C_CALL"]

    events, trace = everything
    by_id = {e["args"]["Python id"]: e for e in spans(events) if e["cat"] == "python_function"}

    def caller(event):
        above = by_id.get(event["args"].get("Python parent id"))
        if above is not None and above["name"].startswith("nn.Module: "):
            return caller(above)
        return above and above["name"]

    expected = collections.Counter((e["name"], caller(e)) for e in by_id.values())
    calls, frames = trace.table("python_calls"), trace.table("frames")

    def frame_name(frame):
        function, file = (trace.names[frames[c][frame]] for c in ("function", "file"))
        return f"{file}({frames['line'][frame]}): {function}" if file else function

    found = collections.Counter(
        (trace.event_name(event), frame_name(frame) if frame >= 0 else None)
        for event, frame in zip(calls["event"].tolist(), calls["caller"].tolist(), strict=True)
    )
    assert found == expected

    events, trace = everything
    spans_by_id = {e["args"].get("Python id"): e["name"] for e in spans(events)}
    expected = collections.Counter(
        (e["name"], spans_by_id[e["args"]["Python parent id"]])
        for e in spans(events)
        if e["args"].get("Python parent id") is not None
    )
    python = {EventKind.PYTHON_CALL, EventKind.C_CALL, EventKind.MODULE_CALL}
    kind, parent = trace.events["kind"].tolist(), trace.events["parent"].tolist()
    found = collections.Counter()
    for event, own in enumerate(kind):
        above = parent[event]
        while above >= 0 and kind[above] not in python:
            above = parent[above]
        if own in python and above >= 0:
            found[trace.event_name(event), trace.event_name(above)] += 1
    # An annotation begins inside __enter__ and outlives it, so by time what __enter__ calls after
    # that is inside the annotation, and no longer inside __enter__.
    elsewhere = expected - found
    assert all(above.endswith(("__enter__", "__exit__")) for _, above in elsewhere)
    assert {name for name, _ in found - expected} <= {name for name, _ in elsewhere}

    events, trace = everything
    memory = [e for e in events if e["name"] == "[memory]"]
    table = trace.table("allocations")
    assert table["size_bytes"].sum() == sum(e["args"]["Bytes"] for e in memory)
    freed = table["allocation_id"][(table["action"] == 1) & (table["allocation_id"] >= 0)]
    assert len(freed) == len(set(freed.tolist()))
    assert (table["event"] >= 0).mean() > 0.9


def test_the_folder_is_a_small_fraction_of_the_json(shapes, tmp_path):
    path, trace = shapes
    folder = trace.save(tmp_path / "t")
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size / len(trace.events) < 21
    assert size <= 0.05 * path.stat().st_size
