"""docs/from-torch-profiler.md against torch: every name is there, and is whose it is said to be."""

import functools
import importlib
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the page is about torch's names")

import opscope.drop_in  # noqa: E402
from opscope.torch_api.settings import SWITCHES  # noqa: E402
from support.torch_processes import run_torch  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "from-torch-profiler.md"
LATER = {  # names of torch later than 2.6
    "_ITraceActivity", "_cupti_monitor_pending_buffers", "EventMetadata", "symbolize_addresses",
    "_is_kineto_stopped", "_get_approximate_time", "ProfilerActivityConfig", "CuspyConfig",
    "PerformanceMetricsConfig",
}  # fmt: skip
GONE = {  # names that torch 2.14 does not have any more
    "_utils.BasicEvaluation", "_utils.EventKey", "_utils.EventMetrics",
    "_utils.source_code_location",
}  # fmt: skip
HOMES = (
    "torch.profiler",
    "torch.profiler.profiler",
    "torch.profiler.itt",
    "torch.autograd.profiler",
    "torch.autograd.profiler_util",
    "torch.autograd.profiler_legacy",
)


def documented():
    """(module, name, whose) of every name in the page's tables of names."""
    module, found = "", []
    for line in PAGE.read_text().splitlines():
        if heading := re.fullmatch(r"## `([\w.]+)`", line):
            module = heading[1]
        elif line.startswith("## "):
            module = ""
        elif module and (row := re.match(r"\| (`.+?`) \| (torch|opscope) \|", line)):
            found += [(module, name, row[2]) for name in re.findall(r"`([^`]+)`", row[1])]
    return found


def resolve(module, name):
    *inner, last = f"{module}.{name}".split(".")
    for length in range(len(inner), 0, -1):
        try:
            owner = importlib.import_module(".".join(inner[:length]))
        except ImportError:
            continue
        return functools.reduce(getattr, [*inner[length:], last], owner)
    raise ImportError(module)


def test_every_name_exists_with_the_documented_implementation():
    names = documented()
    assert len(names) > 120, "the page's tables are read"
    with opscope.drop_in.install():
        for module, name, whose in names:
            try:
                value = resolve(module, name)
            except AttributeError:
                assert name in LATER | GONE, f"{module}.{name} is documented, and is not there"
                continue
            if whose == "opscope":
                home = getattr(value, "__module__", "")
                assert home.startswith("opscope."), f"{module}.{name} is {home}'s"


@pytest.mark.parametrize("home", HOMES)
def test_every_public_name_of_this_torch_is_on_the_page(home):
    module = importlib.import_module(home)
    public = {name for name in module.__all__ if not isinstance(getattr(module, name), type(re))}
    assert public
    said = {name.rpartition(".")[2] for _, name, _ in documented()}
    assert public - said == set()


def test_every_public_attribute_of_what_is_replaced_is_there():
    from opscope.torch_api.drop_in.replacements import find_replacements

    classes = [pair for pair in find_replacements().originals.values() if isinstance(pair[0], type)]
    assert len(classes) > 15
    missing = {
        f"{torchs.__name__}.{name}"
        for torchs, ours in classes
        for name in {*dir(torchs), *getattr(torchs, "__annotations__", {})}
        if not name.startswith("_")
        and not any(name in {*vars(kind), *annotations(kind)} for kind in ours.__mro__)
    }
    assert missing == set()


def annotations(kind):
    return vars(kind).get("__annotations__", {})


def test_what_the_switch_replaces_is_on_the_page():
    from opscope.torch_api.drop_in.replacements import find_replacements

    originals = find_replacements().originals
    said = {name for _, name, whose in documented() if whose == "opscope"}
    replaced = {
        name
        for home in (torch._C._profiler, torch._C._autograd, torch.autograd.profiler_util)
        for name, value in vars(home).items()
        if id(value) in originals
    }
    assert len(replaced) > 30
    assert replaced - said == set()


def test_every_experimental_switch_is_on_the_page():
    said = set(re.findall(r"`(\w+)`", PAGE.read_text().partition("## Switches")[2]))
    assert set(SWITCHES) <= said


STEPPERS = """
import torch
from torch.autograd.profiler import KinetoStepTracker
prof = torch.profiler.profile(
    schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
)
start = KinetoStepTracker.current_step()
with prof:
    for _ in range(4):
        KinetoStepTracker.increment_step("Optimizer")
        prof.step()
print(KinetoStepTracker.current_step() - start, "aten::neg" in [e.name for e in prof.events()])
KinetoStepTracker.init_step_count("mine")
for _ in range(3):
    last = KinetoStepTracker.increment_step("mine")
print(last - KinetoStepTracker.current_step(), KinetoStepTracker.erase_step_count("mine"))
"""


def test_steps_are_counted_as_torch_counts_them(tmp_path):
    (tmp_path / "program.py").write_text(STEPPERS)
    outputs = []
    for switch in (["-m", "opscope.drop_in"], []):
        counts_steps = {"KINETO_USE_DAEMON": "1"}  # torch 2.13 counts none without
        done = run_torch(*switch, "program.py", cwd=tmp_path, added=counts_steps)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("4 "), "prof.step() and the optimizer count as one"
