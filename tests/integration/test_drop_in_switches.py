"""Switches of torch's ``_ExperimentalConfig`` under the drop-in, beside torch's own profiler."""

import gc
import json
import warnings

import pytest

torch = pytest.importorskip("torch", reason="compares with torch.profiler")

from torch._C._profiler import _ExperimentalConfig  # noqa: E402

import opscope.drop_in  # noqa: E402

CPU = [torch.profiler.ProfilerActivity.CPU]


def config(**switches):
    try:
        return _ExperimentalConfig(**switches)
    except TypeError:
        pytest.skip(f"this torch has no {', '.join(switches)}")


def written(prof, folder):
    path = folder / "trace.json"
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


@pytest.fixture
def both(tmp_path):
    """Runs ``program(prof)`` in a profile of torch's and in one of ours; what ``read`` gives."""

    def run(program, read, **settings):
        def once():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with torch.profiler.profile(activities=CPU, **settings) as prof:
                    program(prof)
                return read(prof, written(prof, tmp_path))

        theirs = once()
        with opscope.drop_in.install():
            ours = once()
        return theirs, ours

    return run


def test_keyword_arguments_of_fast_annotations(both):
    def program(_):
        given = {"names": ["a", "b"], "mixed": ["a", 1], "numbers": [1], "none": [], "flag": True}
        with torch._C._profiler._RecordFunctionFast("triton_add", [torch.ones(2, 3)], given):
            pass

    def read(prof, events):
        [event] = [e for e in prof.events() if e.name == "triton_add"]
        [line] = [e for e in events if e["name"] == "triton_add"]
        return dict(event.kwinputs), {k: line["args"].get(k) for k in event.kwinputs}

    theirs, ours = both(program, read, record_shapes=True)
    if not isinstance(theirs[0].get("names"), list):
        pytest.skip("this torch records no lists of strings")
    assert ours == theirs
    assert ours[1] == {
        "names": ["a", "b"],
        "mixed": None,
        "numbers": None,
        "none": [],
        "flag": True,
    }


@pytest.mark.parametrize("wanted", [True, False])
def test_garbage_collections(both, wanted):
    def program(_):
        torch.ones(2)
        gc.collect()

    def read(_, events):
        return {(e["name"], e["cat"]) for e in events if e["name"] in ("Python GC", "aten::ones")}

    settings = config(record_python_gc_info=wanted)
    theirs, ours = both(program, read, with_stack=True, experimental_config=settings)
    assert ours == theirs
    assert (("Python GC", "python_function") in ours) is wanted


@pytest.mark.parametrize("wanted", [True, False])
def test_metadata_of_events(both, wanted):
    def read(prof, events):
        [event] = [e for e in prof.events() if e.name == "aten::neg"]
        [line] = [e for e in events if e["name"] == "aten::neg"]
        index = line["args"]["Ev Idx"]
        if not hasattr(type(event), "metadata_json"):  # torch's own, from 2.15 on
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = event.metadata_json
        return text == f'"Ev Idx": {index}', text == ""

    settings = config(expose_kineto_event_metadata=wanted)
    theirs, ours = both(lambda _: torch.ones(2).neg(), read, experimental_config=settings)
    assert ours == (wanted, not wanted)
    assert theirs in (None, ours)


@pytest.mark.parametrize("wanted", [True, False])
def test_adjusted_steps_nest_in_the_functions_they_end_in(both, wanted):
    def train(prof):
        torch.ones(2).neg()
        prof.step()

    def program(prof):
        for _ in range(4):
            train(prof)

    def read(_, events):
        steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
        calls = [e for e in events if e["name"].endswith(": train")][-3:]
        pairs = zip(steps, calls, strict=True)
        return [step["ts"] >= call["ts"] for step, call in pairs]

    settings = config(adjust_profiler_step=wanted)
    plan = torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    theirs, ours = both(program, read, with_stack=True, schedule=plan, experimental_config=settings)
    assert ours == [wanted] * 3
    if torch.__version__ < "2.15":  # which ignores it, and is to be without it later
        assert theirs == ours
