import json
import os

import pytest

from opscope.errors import OpscopeError, UsageError
from opscope.readers.session import DECISIONS, Session
from support.build_trace import build_trace, span


def saved(folder, steps=20, each=100):
    spans = [
        span(name, start, start + took, **more)
        for step in range(steps)
        for name, start, took, more in (
            (f"ProfilerStep#{step}", step * 1000, 900, {}),
            ("aten::mm", step * 1000 + 100, each, {}),
        )
    ]
    build_trace(spans).save(folder)
    return str(folder)


@pytest.mark.parametrize("path", ["s3://bucket/t", "https://evil.example/t.json", "/nowhere", "t7"])
def test_what_is_elsewhere_or_nowhere_is_refused(path):
    with pytest.raises(OpscopeError):
        Session().open(path)


def test_a_decision_is_kept_with_what_it_rests_on(tmp_path):
    session = Session()
    old, new = saved(tmp_path / "old"), saved(tmp_path / "new")
    name = session.compare([old], [new])
    decision, judged, file = session.decide(name, "count==", "no change")
    assert (decision, file) == ("accept", tmp_path / DECISIONS)
    session.decide(name, "step<=-50%", "")
    first, second = map(json.loads, file.read_text().splitlines())
    assert (first["decision"], first["old"], first["new"]) == ("accept", [old], [new])
    assert first["gate"][0]["outcome"] == "passed" and first["reason"] == "no change"
    assert second["decision"] in ("reject", "undecided")
    assert len(judged) == 1


def test_a_link_or_pipe_in_the_place_of_decisions_is_not_opened(tmp_path):
    session = Session()
    name = session.compare([saved(tmp_path / "old")], [saved(tmp_path / "new")])
    (tmp_path / DECISIONS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="cannot be written"):
        session.decide(name, "count==", "")
    (tmp_path / DECISIONS).unlink()
    os.mkfifo(tmp_path / DECISIONS)  # opening it would wait for a reader, forever
    with pytest.raises(UsageError, match="it is a pipe"):
        session.decide(name, "count==", "")
    assert not (tmp_path / "elsewhere").exists()
