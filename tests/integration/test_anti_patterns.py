"""torch's pattern matchers where torch has them no more, and that they find what torch's did."""

import importlib
import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="matches events of torch programs")

import opscope.drop_in  # noqa: E402
from opscope.torch_api.drop_in import anti_patterns  # noqa: E402

EVERYTHING = {"with_stack": True, "record_shapes": True, "profile_memory": True}
NAME = "torch.profiler._pattern_matcher"
NAMES = [
    "ExtraCUDACopyPattern",
    "ForLoopIndexingPattern",
    "FP32MatMulPattern",
    "OptimizerSingleTensorPattern",
    "SynchronizedDataLoaderPattern",
    "GradNotSetToNonePattern",
    "Conv2dBiasFollowedByBatchNorm2dPattern",
    "MatMulDimInFP16Pattern",
]


def torchs():
    try:
        module = importlib.import_module(NAME)
    except ModuleNotFoundError:
        return None
    return None if module is anti_patterns else module


def train(mistakes=True):
    bias = torch.nn.Conv2d(3, 4, 3, bias=mistakes)
    network = torch.nn.Sequential(
        bias, torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, foreach=not mistakes)
    images = torch.randn(8, 3, 8, 8)
    if mistakes:
        images = torch.cat(list(torch.utils.data.DataLoader(images, batch_size=4)))
    for _ in range(2):
        network(images).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not mistakes)


def compute():
    table = torch.empty(20, 20)
    for row in range(20):
        table[row] = row
    half = torch.randn(7, 9, dtype=torch.bfloat16)
    torch.mm(half, half.t())
    torch.ones(3).to("cpu", copy=True)


@pytest.fixture(scope="module")
def recorded():
    train()  # whatever happens only once has happened
    with opscope.drop_in.install():
        with torch.profiler.profile(**EVERYTHING) as prof:
            train()
            compute()
        prof.profiler.kineto_results.experimental_event_tree()
    return prof


def found_by(module, prof):
    return {name: [e.id for e in getattr(module, name)(prof).matched_events()] for name in NAMES}


def test_mistakes_are_found(recorded):
    found = {name: len(events) for name, events in found_by(anti_patterns, recorded).items()}
    found.pop("FP32MatMulPattern")  # depends on the GPUs that torch was built for
    assert found == {
        "ExtraCUDACopyPattern": 1,
        "ForLoopIndexingPattern": 1,
        "OptimizerSingleTensorPattern": 2,
        "SynchronizedDataLoaderPattern": 1,
        "GradNotSetToNonePattern": 2,
        "Conv2dBiasFollowedByBatchNorm2dPattern": 2,
        "MatMulDimInFP16Pattern": 1,
    }


@pytest.mark.skipif(torchs() is None, reason="this torch has no matchers: 2.13 is the last")
def test_they_are_those_that_torchs_find(recorded):
    with opscope.drop_in.install():  # torch's ask whose classes the events are of
        compare_with_torchs(recorded)


def compare_with_torchs(recorded):
    theirs = torchs()
    assert found_by(anti_patterns, recorded) == found_by(theirs, recorded)
    for name in NAMES:
        ours = getattr(anti_patterns, name)(recorded)
        its = getattr(theirs, name)(recorded)
        assert (ours.name, ours.skip) == (its.name, its.skip)
        for event in its.matched_events():
            assert anti_patterns.source_code_location(event) == theirs.source_code_location(event)
            assert [ours.prev_of(event), ours.next_of(event), ours.root_of(event)] == [
                its.prev_of(event), its.next_of(event), its.root_of(event),
            ]  # fmt: skip


def test_a_program_without_mistakes_has_none():
    with opscope.drop_in.install(), torch.profiler.profile(**EVERYTHING) as prof:
        train(mistakes=False)
    found = found_by(anti_patterns, prof)
    found.pop("FP32MatMulPattern")
    assert not any(found.values())


def test_a_profile_without_shapes_is_asked_nothing_that_takes_them():
    with opscope.drop_in.install(), torch.profiler.profile() as prof:
        train()
    for name in ("ExtraCUDACopyPattern", "MatMulDimInFP16Pattern", "FP32MatMulPattern"):
        pattern = getattr(anti_patterns, name)(prof)
        assert pattern.skip and pattern.matched_events() == []


def test_events_are_found_by_name(recorded):
    pattern = anti_patterns.NamePattern(recorded, "aten::m{2}$")
    assert {event.name for event in pattern.matched_events()} == {"aten::mm"}
    assert pattern.summary([]) == "aten::m{2}$: 0 events matched."


def test_the_report_is_printed_and_added_to(recorded, tmp_path, capsys):
    before = {"elsewhere.py": [{"line_number": 1}]}
    (tmp_path / "torchtidy_report.json").write_text(json.dumps(before))
    anti_patterns.report_all_anti_patterns(recorded, json_report_dir=str(tmp_path))
    written = json.loads((tmp_path / "torchtidy_report.json").read_text())
    assert written.pop("elsewhere.py") == before["elsewhere.py"]
    (entries,) = [entries for file, entries in written.items() if file.endswith("patterns.py")]
    assert all(set(one) == {"line_number", "name", "url", "message"} for one in entries)
    printed = capsys.readouterr().out
    assert "Optimizer Single Tensor Pattern: 2 events matched." in printed
    anti_patterns.report_all_anti_patterns(recorded, print_enable=False)
    assert capsys.readouterr().out == ""


def test_a_profile_that_has_recorded_nothing_is_refused():
    with pytest.raises(AssertionError, match="has no recording yet"):
        anti_patterns.Pattern(torch.profiler.profile())


def test_the_module_is_there_while_opscope_is_where_torch_has_none():
    own = torchs()
    with opscope.drop_in.install():
        module = importlib.import_module(NAME)
        assert module is (own or anti_patterns)
        assert torch.profiler._pattern_matcher is module
    assert sys.modules.get(NAME) is own
    assert getattr(torch.profiler, "_pattern_matcher", None) is own
