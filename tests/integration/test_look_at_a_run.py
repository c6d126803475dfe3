"""A recorded training loop in every form there is to look at it."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

torch = pytest.importorskip("torch")

import opscope  # noqa: E402
from support.read_report import read_report  # noqa: E402


@pytest.fixture(scope="module")
def recorded():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = opscope.schedule(wait=1, warmup=1, active=3, repeat=1)
    # What earlier tests left would be freed in the recording, and its beginning be the peak.
    gc.collect()
    with opscope.profile(
        schedule=steps, record_shapes=True, profile_memory=True, with_modules=True
    ) as profile:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            profile.step()
    return profile


def test_perfetto_has_every_event(recorded, tmp_path):
    pytest.importorskip("perfetto")
    from support.read_perfetto import read_perfetto

    recorded.export_perfetto(tmp_path / "a.pftrace")
    file = read_perfetto(tmp_path / "a.pftrace")
    events = recorded.trace.events
    assert Counter((s.start, s.end - s.start) for s in file.slices) == Counter(
        zip(events["start_ns"].tolist(), events["duration_ns"].tolist(), strict=True)
    )
    starts = {flow for s in file.slices for flow in s.flows}
    ends = {flow for s in file.slices for flow in s.ends_flows}
    assert starts == ends != set()
    assert any(s.arguments.get("inputs", "").startswith("float32[4,8]") for s in file.slices)
    assert len(file.counters) == 1


def test_the_report_says_what_happened(recorded, tmp_path):
    recorded.export_report(tmp_path / "a.html", title="Tiny")
    report = read_report((tmp_path / "a.html").read_text())
    assert report.data["title"] == "Tiny"
    assert len(report.spans) == len(recorded.trace.events)
    assert report.data["steps"]["number"] == [2, 3, 4]
    phases = dict(
        zip(report.data["steps"]["phases"], report.data["steps"]["phaseTimes"][0], strict=True)
    )
    assert min(phases["forward"], phases["backward"], phases["optimizer"]) > 0
    modules = report.data["modules"]["columns"]
    named = dict(zip(modules["name"], modules["class"], strict=True))
    assert named == {"0": "Linear", "1": "ReLU", "2": "Linear", "Sequential_0": "Sequential"}
    linear = modules["name"].index("0")
    assert modules["backward"][linear] > 0
    assert modules["label"][linear] == "0 (Linear)"
    (memory,) = report.data["memory"]
    assert memory["peakBytes"] > 0
    assert sum(group["bytes"] for group in memory["groups"]["category"]) == memory["peakBytes"]
    assert "activation" in memory["byCategory"]["names"]
    assert report.data["operators"]["flopsCoverage"] > 0


def test_notebooks_show_profiles_averages_and_traces(recorded):
    for shown in (recorded, recorded.trace, recorded.key_averages(), recorded.events()):
        assert "aten::" in shown._repr_html_()
    assert "<table>" not in opscope.profile()._repr_html_()
