"""What recordings of the two sides of a comparison are called."""

import pytest

from opscope.api.diff import open_sides
from support.build_trace import build_trace


@pytest.fixture
def places(tmp_path):
    trace = build_trace("aten::mm 0..9")
    for place in ("old/x/run.opscope", "new/x/run.opscope", "new/x/other.opscope"):
        trace.save(tmp_path / place)
    return tmp_path


def names(a, b):
    return tuple(side.names for side in open_sides(a, b))


def test_as_much_of_a_place_as_tells_recordings_apart(places):
    a, b = places / "old/x/run.opscope", places / "new/x/run.opscope"
    assert names(a, b) == (("old/x/run.opscope",), ("new/x/run.opscope",))
    assert names(a, f"{a}/") == (("run.opscope",), ("run.opscope",))


def test_passwords_are_not_in_names(places, monkeypatch):
    from opscope.api import diff

    trace = build_trace("aten::mm 0..9")
    monkeypatch.setattr(diff, "load_trace", lambda place: trace)
    found = names("ftp://me:secret@here/a/run.opscope", "ftp://me:secret@there/a/run.opscope")
    assert all(name.endswith("/a/run.opscope") for side_names in found for name in side_names)
    assert found[0] != found[1] and "secret" not in str(found)


def test_traces_are_called_after_their_programs():
    known = build_trace("aten::mm 0..9", metadata={"program": "train.py"})
    unknown = build_trace("aten::mm 0..9")
    assert names([known, unknown], unknown) == (("train.py", "recording 2"), ("recording 3",))
