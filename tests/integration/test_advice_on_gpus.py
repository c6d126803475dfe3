"""What findings promise about programs that ran on a GPU, against what their fixes saved there."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from opscope.trace.read_part import load_folder

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
FACTOR, FURTHER = 1.3, 0.05


@pytest.fixture(scope="module", params=list(FIRST))
def recorded(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(KEPT / f"{request.param}.tar.xz") as file:
        file.extractall(folder, filter="data")
    return request.param, load_folder(folder / f"{request.param}.opscope")


def test_what_is_promised_was_saved(recorded):
    name, trace = recorded
    first = next(iter(trace.findings()))
    assert first.id == FIRST[name]
    assert SAVED[name] / FACTOR - FURTHER < first.saved_share < SAVED[name] * FACTOR
    assert first.places[0].file.endswith("on_gpu.py")


def test_waiting_for_the_end_is_no_time_outside_torch(recorded):
    _, trace = recorded
    for finding in trace.findings():
        for place in finding.places if finding.id == "time-outside-torch" else ():
            assert "_wait_for_device" not in place.function


def test_a_replay_without_a_change_takes_what_was_recorded(recorded):
    _, trace = recorded
    replayed = trace.what_if({})
    account = trace.account()
    assert replayed.before_ns == pytest.approx(account.wall_ns, rel=0.01)
    assert replayed.saved_ns == 0


def test_the_fix_of_a_finding_replays_by_its_name(recorded):
    _, trace = recorded
    first = next(iter(trace.findings()))
    assert trace.what_if({first.id: 0}).saved_share > 0.5 * first.saved_share


def test_times_are_divided_without_rest(recorded):
    _, trace = recorded
    account = trace.account()
    divided = np.bincount(account.thread, weights=account.time_ns)
    assert len(account.threads) >= 2  # the program's, and a device
    assert divided[account.main] == pytest.approx(account.wall_ns, rel=0.001)
    assert divided[-1] == pytest.approx(account.wall_ns, rel=0.001)
