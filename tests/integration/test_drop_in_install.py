"""The switch itself: what it reaches, that it leaves nothing behind, and how programs are run."""

import gc
import sys
import types
from contextlib import suppress

import pytest

torch = pytest.importorskip("torch", reason="switches torch.profiler")

from torch._C._autograd import _enable_profiler as torch_enable  # noqa: E402
from torch.autograd.profiler_util import EventList as AnotherNameForIt  # noqa: E402

import opscope.drop_in  # noqa: E402
from opscope.errors import LifecycleError  # noqa: E402
from opscope.torch_api.drop_in.backend import result  # noqa: E402
from support.processes import run_python  # noqa: E402
from support.torch_processes import run_torch  # noqa: E402


def recorded_by_opscope(prof):
    return isinstance(prof.profiler.kineto_results, result.ProfilerResult)


def snapshot():
    """Every global of every module, and the attributes of torch's profiler classes."""
    owners = {
        name: module
        for name, module in sys.modules.items()
        if isinstance(module, types.ModuleType) and name.partition(".")[0] != "opscope"
    }
    classes = (
        torch.autograd.profiler.profile,
        torch.autograd.profiler.emit_nvtx,
        torch.profiler.profiler._KinetoProfile,
    )
    owners |= {cls.__qualname__: cls for cls in classes}
    return {(name, key): value for name, o in owners.items() for key, value in vars(o).items()}


def test_uninstall_restores_every_name():
    before = snapshot()
    with opscope.drop_in.install():
        opscope.drop_in.install()
        changed = {where for where, value in snapshot().items() if before.get(where) is not value}
    opscope.drop_in.uninstall()
    after = snapshot()

    assert not opscope.drop_in.is_installed()
    assert len(changed) > 50, "the snapshot sees what is replaced"
    assert [where for where, value in before.items() if after.get(where) is not value] == []


def test_names_imported_before_under_another_name_are_switched():
    original = AnotherNameForIt
    with opscope.drop_in.install():
        assert AnotherNameForIt is torch.autograd.profiler_util.EventList is not original
    assert AnotherNameForIt is original


def test_modules_that_import_names_meanwhile_get_torchs_back():
    with opscope.drop_in.install():
        late = types.ModuleType("late_comer")
        sys.modules["late_comer"] = late
        exec("from torch.autograd.profiler_util import EventList as Events", vars(late))
        during = late.Events
    del sys.modules["late_comer"]
    assert late.Events is torch.autograd.profiler_util.EventList is not during


def test_modules_that_have_opscopes_own_classes_keep_them():
    owner = types.ModuleType("owner_of_ours")
    sys.modules["owner_of_ours"] = owner
    exec("from opscope.torch_api.event_list.event_list import EventList", vars(owner))
    ours = owner.EventList
    with opscope.drop_in.install():
        pass
    del sys.modules["owner_of_ours"]
    assert owner.EventList is ours


def test_profiles_record_with_opscope_only_while_installed():
    with opscope.drop_in.install(), torch.profiler.profile() as inside:
        torch.ones(2).neg()
    with torch.profiler.profile() as outside:
        torch.ones(2).neg()

    assert recorded_by_opscope(inside) and not recorded_by_opscope(outside)
    assert [e.name for e in inside.events()] == [e.name for e in outside.events()]


def test_it_is_refused_while_torchs_own_profiler_runs():
    with torch.profiler.profile(), pytest.raises(LifecycleError, match="Stop it"):
        opscope.drop_in.install()
    assert not opscope.drop_in.is_installed()


def test_torchs_own_profiler_cannot_be_started_beside_it():
    # GIVEN a program that kept torch's function where no switch reaches it
    kept = {"enable": torch_enable}
    config = torch._C._profiler.ProfilerConfig(
        torch._C._profiler.ProfilerState.KINETO,
        *[False] * 5,
        torch._C._profiler._ExperimentalConfig(),
    )
    with opscope.drop_in.install(), torch.profiler.profile() as prof:
        with pytest.raises(RuntimeError, match="already enabled"):
            kept["enable"](config, {torch.profiler.ProfilerActivity.CPU})
        torch.ones(2).neg()
    assert "aten::neg" in [event.name for event in prof.events()]


def test_uninstalling_in_the_middle_of_a_profile_stops_it_and_says_so():
    opscope.drop_in.install()
    torch.profiler.profile().start()
    with pytest.warns(UserWarning, match="its recording is lost"):
        opscope.drop_in.uninstall()
    assert not torch.autograd.profiler._is_profiler_enabled
    with torch.profiler.profile() as prof:
        torch.ones(2)
    assert not recorded_by_opscope(prof)


def second_profile():
    """What becomes of a profile in a profile."""
    outer, inner = torch.profiler.profile(), torch.profiler.profile()
    outer.start()
    try:
        inner.start()
    except RuntimeError as error:
        said = str(error).splitlines()[0]
    else:
        torch.ones(2).abs()
        inner.stop()
        said = "aten::abs" in [event.name for event in inner.events()]
    torch.ones(2).neg()
    with suppress(RuntimeError):  # torch 2.6 alone has lost the outer one by then
        outer.stop()
    return said, outer


def test_a_second_profile_begins_or_is_refused_as_in_this_torch():
    alone, _ = second_profile()
    with opscope.drop_in.install():
        said, outer = second_profile()
        assert said == alone
        # What torch may lose then is here.
        assert "aten::neg" in [event.name for event in outer.events()]
        assert not torch.autograd._profiler_enabled()


def test_disabling_where_nothing_runs_does_what_this_torch_does():
    def disable():
        try:
            return len(torch.autograd._disable_profiler().events())
        except RuntimeError:
            return "refused"

    alone = disable()
    with opscope.drop_in.install():
        assert disable() == alone


def test_classes_derived_from_torchs_before_the_switch_are_warned_of():
    class Derived(torch.profiler.ExecutionTraceObserver):
        pass

    with pytest.warns(UserWarning, match=r"Derived: derived from .* Call opscope.drop_in.install"):
        opscope.drop_in.install()
    opscope.drop_in.uninstall()
    del Derived
    gc.collect()  # a class is part of a cycle: the next switch would still see it


# -- python -m opscope.drop_in ---------------------------------------------------------------------

PROGRAM = """
import sys
had_torch = "torch" in sys.modules
import torch

def work():
    return torch.ones(2).neg()

with torch.profiler.profile(with_stack=True) as prof:
    work()
own = ("program.py(", "<string>(", "<stdin>(")
calls = [event.name for event in prof.events() if any(one in event.name for one in own)]
print(__name__, sys.argv[1:], type(prof.profiler.kineto_results).__module__, had_torch)
print([call.rpartition(": ")[2] for call in calls], file=open("calls", "w"))
sys.exit(7)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def call(*arguments, run=run_python):
        return run("-m", "opscope.drop_in", *arguments, cwd=tmp_path, input=PROGRAM)

    return call


@pytest.mark.parametrize("how", [["program.py"], ["-m", "program"], ["-c", PROGRAM], ["-"]])
def test_programs_run_as_under_python_but_switched(run, tmp_path, how):
    is_forked = how != ["-"]  # torch reads its environment when the program imports it
    done = run(*how, "-m", "--flag", run=run_torch if is_forked else run_python)
    assert done.returncode == 7
    backend = "opscope.torch_api.drop_in.backend.result"
    assert done.stdout == f"__main__ ['-m', '--flag'] {backend} {is_forked}\n"
    # Some torches warn, and of machines without a GPU not always.
    assert "opscope" not in done.stderr and "Traceback" not in done.stderr
    # What is called around the program is not seen.
    assert (tmp_path / "calls").read_text() == "['<module>', 'work']\n"


@pytest.mark.parametrize("arguments", [[], ["-m"], ["missing.py"], ["-m", "missing"]])
def test_what_cannot_run_is_refused(run, arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and done.stderr.strip()
