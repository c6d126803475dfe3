"""Peaks are measured once, kept by machine, and measured again where what was kept is no use."""

import json
from itertools import count

import pytest

from opscope.analysis.roofline import peaks as peaks_module
from opscope.analysis.roofline.peaks import Peaks, measured_peaks

pytest.importorskip("torch")


_TICKS = count(step=1_000)


def undisturbed():
    """Time of a processor that nothing was taken from, whatever else the machine does meanwhile."""
    return float(next(_TICKS))


@pytest.fixture
def measurements(monkeypatch, tmp_path):
    """What is measured instead of this machine; the list has what was asked for."""
    asked = []

    def best(torch, rate, of):
        asked.append(of)
        return 1e9 if isinstance(of, str) else float(of)

    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(peaks_module, "_best_of_threads", best)
    monkeypatch.setattr(peaks_module.time, "process_time", undisturbed)
    return asked


def test_they_are_measured_once(measurements):
    first = measured_peaks(["float32"])
    asked = len(measurements)
    assert asked > 1
    assert measured_peaks(["float32"]) == first
    assert len(measurements) == asked
    assert first.flops_per_s == {"float32": 1e9}
    del measurements[:]
    more = measured_peaks(["float32", "bfloat16", "int64"])
    assert set(more.flops_per_s) == {"float32", "bfloat16"}
    assert measurements == ["bfloat16"]
    del measurements[:]
    measured_peaks(again=True)
    assert measurements


def test_what_makes_no_sense_is_replaced(measurements, tmp_path):
    found = measured_peaks()
    (file,) = tmp_path.glob("peaks-*.json")
    for kept in ("", "{}", "[]", '{"machine": 1}', '{"bytes_per_s": [[1, 2]]}'):
        file.write_text(kept)
        assert measured_peaks() == found
        assert json.loads(file.read_text())["machine"] == found.machine


def test_a_folder_that_cannot_be_written_to_is_no_error(measurements, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path / "file"))
    assert measured_peaks().flops_per_s


def test_bandwidth_between_what_was_measured():
    peaks = Peaks("a machine", 1, {}, [(100, 50.0), (10_000, 10.0)])
    found = [peaks.bandwidth(size) for size in (0, 100, 1_000, 10_000, 1e9)]
    assert found == pytest.approx([50, 50, 30, 10, 10])


def test_peaks_measured_beside_other_programs_are_not_kept(measurements, monkeypatch):
    monkeypatch.setattr(peaks_module.time, "process_time", lambda: 0.0)
    assert measured_peaks().was_busy
    del measurements[:]
    monkeypatch.setattr(peaks_module.time, "process_time", undisturbed)
    assert not measured_peaks().was_busy
    assert measurements


def test_what_is_compared_keeps_to_what_was_measured_also_where_that_is_not_kept(
    measurements, monkeypatch
):
    monkeypatch.setattr(peaks_module.time, "process_time", lambda: 0.0)
    first = measured_peaks(["float32"])
    del measurements[:]
    monkeypatch.setattr(peaks_module.time, "process_time", undisturbed)
    assert measured_peaks(["float32"], known=first) is first
    more = measured_peaks(["float32", "float64"], known=first)
    assert measurements == ["float64"]
    assert set(more.flops_per_s) == {"float32", "float64"}
    assert more.was_busy, "it is still the copies that were measured beside other programs"
