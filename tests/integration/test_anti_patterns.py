"""The place of torch's pattern matchers where torch has them no more."""

import importlib
import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="matches events of torch programs")

import opscope.drop_in  # noqa: E402
from opscope.torch_api.drop_in import anti_patterns  # noqa: E402

NAME = "torch.profiler._pattern_matcher"


def torchs():
    try:
        module = importlib.import_module(NAME)
    except ModuleNotFoundError:
        return None
    return None if module is anti_patterns else module


@pytest.fixture(scope="module")
def recorded():
    table = torch.empty(2000, 20)
    with opscope.drop_in.install():
        with torch.profiler.profile(with_stack=True, record_shapes=True) as prof:
            for row in range(2000):
                table[row] = row
            torch.mm(table, table.t())
        prof.profiler.kineto_results.experimental_event_tree()
    return prof


@pytest.mark.skipif(torchs() is None, reason="this torch has no matchers: 2.13 is the last")
def test_names_and_walks_are_those_of_torchs(recorded):
    names = [n for n in vars(torchs()) if n.endswith("Pattern") or n.startswith("report_")]
    assert len(names) == 11 and all(hasattr(anti_patterns, name) for name in names)
    with opscope.drop_in.install():  # torch's ask whose classes the events are of
        ours = anti_patterns.NamePattern(recorded, "aten::copy_")
        its = torchs().NamePattern(recorded, "aten::copy_")
        matched = its.matched_events()
        assert ours.matched_events() == matched and len(matched) >= 10
        for event in matched[:20]:
            assert [ours.prev_of(event), ours.next_of(event), ours.root_of(event)] == [
                its.prev_of(event), its.next_of(event), its.root_of(event),
            ]  # fmt: skip


def test_events_are_found_by_name(recorded):
    pattern = anti_patterns.NamePattern(recorded, "aten::m{2}$")
    assert {event.name for event in pattern.matched_events()} == {"aten::mm"}
    assert pattern.summary([]) == "aten::m{2}$: 0 events matched."


def test_patterns_of_torchs_say_where_to_look(recorded):
    with pytest.warns(UserWarning, match=r"ForLoopIndexingPattern matches nothing.*findings"):
        assert anti_patterns.ForLoopIndexingPattern(recorded).matched_events() == []


def test_the_report_is_that_of_findings_and_is_added_to(recorded, tmp_path, capsys):
    before = {"elsewhere.py": [{"line_number": 1}]}
    (tmp_path / "torchtidy_report.json").write_text(json.dumps(before))
    anti_patterns.report_all_anti_patterns(recorded, json_report_dir=str(tmp_path))
    written = json.loads((tmp_path / "torchtidy_report.json").read_text())
    assert written.pop("elsewhere.py") == before["elsewhere.py"]
    (entries,) = [entries for file, entries in written.items() if file.endswith("patterns.py")]
    assert all(set(one) == {"line_number", "name", "url", "message"} for one in entries)
    assert "<Findings: " in capsys.readouterr().out
    anti_patterns.report_all_anti_patterns(recorded, print_enable=False)
    assert capsys.readouterr().out == ""


def test_a_profile_that_has_recorded_nothing_is_refused():
    with pytest.raises(AssertionError, match="recorded nothing yet"):
        anti_patterns.Pattern(torch.profiler.profile())


def test_the_module_is_there_while_opscope_is_where_torch_has_none():
    own = torchs()
    with opscope.drop_in.install():
        module = importlib.import_module(NAME)
        assert module is (own or anti_patterns)
        assert torch.profiler._pattern_matcher is module
    assert sys.modules.get(NAME) is own
    assert getattr(torch.profiler, "_pattern_matcher", None) is own
