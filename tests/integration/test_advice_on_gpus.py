"""What findings promise about programs that ran on a GPU, against what their fixes saved there."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.support.finding import hold_order

from opscope.api.trace import Trace
from opscope.columns.part import part_from
from opscope.storage.read_part import load_part
from opscope.timeline.period import period_of

KEPT = Path(__file__).parents[1] / "recorded_gpu" / "advice"
SAVED = json.loads((KEPT / "saved.json").read_text())

FIRST = {
    "products_in_full_precision": "full-precision-matmul",
    "noise_made_on_the_host": "extra-device-copy",
    "noise_in_double_precision": "double-precision",
    "attention_written_out": "attention-by-hand",
    "boxes_one_after_another": "for-loop-indexing",
    "rows_chosen_by_mask": "implicit-synchronisation",
    "frozen_network_run_again": "repeated-results",
}
FACTOR, FURTHER = 2.0, 0.05


@pytest.fixture(scope="module", params=list(FIRST))
def recorded(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(KEPT / f"{request.param}.tar.xz") as file:
        file.extractall(folder, filter="data")
    return request.param, Trace.of(load_part(folder / f"{request.param}.opscope"))


def test_what_is_promised_was_saved_and_is_explained(recorded):
    name, trace = recorded
    first = next(iter(trace.findings()))
    assert first.id == FIRST[name]
    assert SAVED[name] / FACTOR - FURTHER < first.saved_share < SAVED[name] * FACTOR
    assert first.places[0].file.endswith("on_gpu.py")

    findings = trace.findings()
    hold_order(findings)
    assert findings.wall_ns <= period_of(trace).wall_ns
    assert findings.unexplained.share <= 1.1 - first.saved_share
    for finding in findings:
        assert 0 <= finding.time_share <= 1.02 and 0 <= (finding.saved_share or 0) <= 1
        for place in finding.places if finding.id == "time-outside-torch" else ():
            assert "_wait_for_device" not in place.function


def test_a_part_of_the_time_is_of_that_part(recorded):
    """Work that was under way when it ends counts until then."""
    _, trace = recorded
    begin = int(trace.events["start_ns"].min())
    gpu = trace.table("gpu")
    middle = (begin + int((gpu["start_ns"] + gpu["duration_ns"]).max())) // 2
    part = part_from(trace, middle, middle + 5_000_000).trace
    findings = Trace.of(part).findings(period="all")
    assert findings.wall_ns <= 5_000_000
    assert all(one.saved_share is None or one.saved_share <= 1 for one in findings)
    ends = part.table("gpu")["start_ns"] + part.table("gpu")["duration_ns"]
    assert (part.table("gpu")["start_ns"] >= middle).all() and (ends <= middle + 5_000_000).all()
    waits = [one for one in findings if one.id == "time-outside-torch"]
    assert not waits or "synchronize" not in waits[0].explanation


def test_times_are_divided_without_rest_and_replayed(recorded):
    name, trace = recorded
    account = trace.account()
    divided = np.bincount(account.thread, weights=account.time_ns)
    assert len(account.threads) >= 2  # the program's, and a device
    assert divided[account.main] == pytest.approx(account.wall_ns, rel=0.001)
    assert divided[-1] == pytest.approx(account.wall_ns, rel=0.001)

    replayed = trace.what_if({})
    assert replayed.before_ns == pytest.approx(account.wall_ns, rel=0.01)
    assert replayed.saved_ns == 0

    path = trace.critical_path()
    (first, took), *_ = path.by_name()
    kernels = {trace.names[one] for one in np.unique(trace.table("gpu")["name"])}
    of_device = sum(time for thread, time in path.by_thread() if thread.startswith("cuda:"))
    if of_device > 0.5 * path.length_ns:
        assert first in kernels, name
    assert took <= path.length_ns == pytest.approx(path.wall_ns, rel=0.01)
