"""The recorder of Python calls, on any interpreter and without torch."""

import asyncio
import contextlib
import cProfile
import ctypes
import functools
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import weakref

import pytest

from opscope import _native
from support.record_python import PythonWindow, record

pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")


@pytest.fixture(scope="module")
def no_torch():
    """The recorder as it is where torch was never imported; what it knew of torch comes back."""
    _native.set_up_python("", "", "", *[None] * 4)
    yield
    source = sys.modules.get("opscope.recording.python_source")
    if source is not None and source._set_up:
        source._set_up = False
        source.set_up_python_source()


@pytest.fixture
def nothing_left_over():
    profiler = sys.getprofile()
    thread_profiler = threading.getprofile()
    yield
    statistics = _native.statistics()
    assert statistics["windows"] == 0
    assert statistics["wanted"] == 0
    assert sys.getprofile() is profiler
    assert threading.getprofile() is thread_profiler
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(i) for i in (3, 4)] == [None, None]


def leaf(number=0):
    return number + 1


def shapes(call):
    """Children by name, with the noise of the interpreter versions left out."""
    return [child.shape() for child in call.children]


def test_calls_nest_and_carry_their_caller_s_line():
    def outer():
        leaf()
        len([])

    call = record(outer)
    first = inspect.getsourcelines(outer)[1]
    assert shapes(call) == ["leaf", "<built-in function len>"]
    assert [child.line for child in call.children] == [first + 1, first + 2]
    assert not call.unfinished


def test_methods_of_built_in_types_are_named_as_bound_ones():
    def outer():
        [].append(1)

    (name,) = shapes(record(outer))
    assert name.startswith("<built-in method append of list object at 0x")


def test_generators_are_a_span_each_time_they_run():
    def numbers():
        for i in range(2):
            yield leaf(i)

    def outer():
        return list(numbers())

    call = record(outer)
    assert shapes(call) == [("numbers", "leaf"), ("numbers", "leaf"), "numbers"]


def test_generators_that_interleave_or_are_closed_early():
    def numbers():
        yield 1
        yield 2

    def outer():
        a, b = numbers(), numbers()
        next(a), next(b), next(a)
        with contextlib.suppress(RuntimeError):
            b.throw(RuntimeError)
        a.close()
        leaf()

    call = record(outer)
    assert len(call.find("numbers")) >= 4
    assert call.children[-1].name == "leaf"
    assert not any(found.unfinished for found in call.find("numbers"))


def test_coroutines():
    async def inner():
        await asyncio.sleep(0)
        leaf()

    async def main():
        await asyncio.gather(inner(), inner())

    def outer():
        asyncio.run(main())

    call = record(outer)
    assert len(call.find("leaf")) == 2
    for resumed in call.find("inner"):
        assert resumed.find("inner") == [resumed], "two tasks never run inside each other"
    assert len(call.find("inner")) == 4


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_exceptions_end_every_span_they_leave(error):
    def fail(_):
        raise error

    def middle():
        sorted([2, 1], key=fail)

    def outer():
        try:
            middle()
        except BaseException as raised:
            assert type(raised) is error
        leaf()

    call = record(outer)
    assert shapes(call) == [("middle", ("<built-in function sorted>", "fail")), "leaf"]
    assert not any(found.unfinished for found in call.find("fail"))


def test_callbacks_from_c_belong_to_the_c_function():
    def key(item):
        return leaf(item)

    def outer():
        sorted([2, 1], key=key)
        list(map(leaf, [1]))
        functools.partial(leaf, 1)()

    call = record(outer)
    inside = ("key", "leaf")
    assert shapes(call) == [("<built-in function sorted>", inside, inside), "leaf", "leaf"]
    first = inspect.getsourcelines(outer)[1]
    lines = [found.line for found in call.find("key")]
    assert lines == [first + 1, first + 1], "every time, not only the first"
    assert [child.line for child in call.children] == [first + 1, first + 2, first + 3]


def test_special_methods_know_their_line():
    class Number:
        def __add__(self, other):
            return leaf()

    def outer():
        number = Number()
        return number + 1

    (call,) = record(outer).find("__add__")
    assert call.line == inspect.getsourcelines(outer)[1] + 2


def test_ctypes_callbacks():
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(leaf)

    def outer():
        assert callback(1) == 2
        leaf()

    call = record(outer)
    assert len(call.find("leaf")) == 2
    assert call.children[-1].name == "leaf"


def test_recursion_a_hundred_thousand_deep():
    depth = 100_000

    def down(left):
        return 0 if left == 0 else down(left - 1)

    def outer():
        return down(depth)

    calls = []
    previous = sys.getrecursionlimit(), threading.stack_size(512 << 20)
    sys.setrecursionlimit(depth * 2)
    try:
        thread = threading.Thread(target=deep_without_finding, args=(outer, calls))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(previous[1])
        sys.setrecursionlimit(previous[0])
    (decoded,) = calls
    parent = decoded["events"]["parent"]
    assert len(parent) > depth
    assert not decoded["events"]["unfinished"][1:].all()
    assert int((parent >= 0).sum()) >= depth


def deep_without_finding(function, calls):
    window = PythonWindow()
    function()
    window.close()
    calls.append(_native.decode(window.id, []))
    _native.discard_window(window.id)


def test_a_window_opened_at_the_bottom_of_a_deep_stack():
    windows = []

    def down(left):
        if left == 0:
            windows.append(PythonWindow())
            return 0
        return down(left - 1)

    down(500)
    leaf()
    windows[0].close()
    roots = windows[0].read()
    (found,) = [call for root in roots for call in root.find("leaf")]
    assert not found.unfinished
    started = [call for root in roots for call in root.find("down")]
    assert len(started) == 501
    assert not any(call.unfinished for call in started)
    assert not any(call.find("leaf") for call in started), "they had returned"


def test_a_window_closed_deeper_than_it_was_opened_leaves_nothing_open():
    def outer(window):
        leaf()
        window.close()

    for _ in range(3):
        window = PythonWindow()
        outer(window)
        (call,) = [found for root in window.read() for found in root.find("outer")]
        assert call.unfinished
        assert call.children[0].shape() == "leaf"
    window = PythonWindow()
    leaf()
    window.close()
    roots = window.read()
    assert sum(len(root.find("outer")) for root in roots) == 0
    (found,) = [call for root in roots for call in root.find("leaf")]
    here = inspect.currentframe().f_code.co_name
    (test,) = [call for root in roots for call in root.find(here)]
    assert any(found is child for child in test.children), "not inside what never ended"


def test_overlapping_windows_each_see_what_was_running():
    windows = {}

    def inner():
        windows["second"] = PythonWindow()
        leaf(1)

    def outer():
        inner()
        leaf(2)

    windows["first"] = PythonWindow()
    outer()
    leaf(3)
    windows["second"].close()
    windows["first"].close()
    second, first = windows["second"].read(), windows["first"].read()
    (call,) = [found for root in first for found in root.find("outer")]
    assert not call.unfinished
    (started,) = [found for root in second for found in root.find("outer")]
    assert not started.unfinished, "it ended within the second window too"
    assert [child.name for child in started.children] == ["inner", "leaf"]
    assert sum(len(root.find("leaf")) for root in second) == 3
    assert len(started.find("leaf")) == 2


def test_a_window_without_calls_beside_one_with_them():
    quiet = PythonWindow("GC")
    call = record(leaf)
    quiet.close()
    assert call.name == "leaf"
    assert quiet.read() == []
    assert quiet.decoded["unmatched_ends"] == 0


def test_pausing_leaves_out_and_goes_on():
    state = {}

    def ends_in_the_pause():
        state["window"] = PythonWindow()
        leaf()
        _native.pause_window(state["window"].id, True)

    def outer():
        ends_in_the_pause()
        leaf(10)
        _native.pause_window(state["window"].id, False)
        leaf(20)

    outer()
    state["window"].close()
    roots = state["window"].read()
    (call,) = [found for root in roots for found in root.find("outer")]
    assert [child.name for child in call.children] == ["ends_in_the_pause", "leaf"]
    assert len(call.find("leaf")) == 2


def test_a_function_that_returns_after_a_pause_ends_there():
    window = PythonWindow()

    def outer():
        _native.pause_window(window.id, True)
        _native.pause_window(window.id, False)
        leaf(1)

    outer()
    leaf(2)
    window.close()
    (call,) = [found for root in window.read() for found in root.find("outer")]
    assert not call.unfinished
    assert [child.name for child in call.children] == ["leaf"]


@pytest.mark.parametrize("wants", [("PYTHON", "NEW_THREADS"), ("PYTHON",)])
def test_threads_that_exist_and_threads_that_begin(wants):
    ready, go, end = threading.Barrier(2), threading.Barrier(2), threading.Barrier(2)

    def before():
        ready.wait()
        go.wait()
        leaf()
        end.wait()

    def during():
        leaf()

    thread = threading.Thread(target=before)
    thread.start()
    ready.wait()
    window = PythonWindow(*wants)
    later = threading.Thread(target=during)
    later.start()
    later.join()
    go.wait()
    end.wait()
    thread.join()
    window.close()
    roots = window.read()
    (existing,) = [call for root in roots for call in root.find("before")]
    assert len(existing.find("leaf")) == 1
    assert not existing.unfinished
    begun = [call for root in roots for call in root.find("during")]
    assert len(begun) == ("NEW_THREADS" in wants)
    assert all(call.thread != existing.thread for call in begun)
    assert all(len(call.find("leaf")) == 1 for call in begun)


def test_a_thread_in_the_middle_of_a_call_when_windows_come_and_go():
    inside, go = threading.Event(), threading.Event()

    def worker():
        waits()

    def waits():
        inside.set()
        go.wait()
        leaf()

    thread = threading.Thread(target=worker)
    thread.start()
    inside.wait()
    chunks = []
    for _ in range(30):
        window = PythonWindow()
        window.close()
        window.read()
        chunks.append(_native.statistics()["mapped_bytes"])
    assert chunks[-1] <= chunks[10], "what the thread had open does not pile up"
    window = PythonWindow()
    go.set()
    thread.join()
    window.close()
    (call,) = [found for root in window.read() for found in root.find("worker")]
    assert not call.unfinished
    (waited,) = call.find("waits")
    assert len(waited.find("leaf")) == 1


def test_stopping_in_another_thread():
    window = PythonWindow()

    def outer():
        thread = threading.Thread(target=window.close)
        thread.start()
        thread.join()
        leaf()

    outer()
    (call,) = [found for root in window.read() for found in root.find("outer")]
    assert call.unfinished
    assert call.find("leaf") == []
    record(leaf)


def test_the_program_s_own_profilers_are_left_alone():
    seen = []

    def profiler(frame, event, arg):
        seen.append(event)

    sys.setprofile(profiler)
    try:
        window = PythonWindow()
        leaf()
        window.close()
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    window.read()
    assert "call" in seen


def test_a_profiler_of_the_program_that_comes_during_a_window():
    window = PythonWindow()
    profiler = cProfile.Profile()
    profiler.enable()
    leaf()
    profiler.disable()
    window.close()
    window.read()
    assert any(entry.code is leaf.__code__ for entry in profiler.getstats())
    assert shapes(record(lambda_user)) == ["leaf"]


def lambda_user():
    leaf()


def test_a_thread_profiler_of_the_program_is_not_replaced():
    def profiler(frame, event, arg):
        return None

    threading.setprofile(profiler)
    try:
        window = PythonWindow()
        window.close()
        window.read()
        assert threading.getprofile() is profiler
        threading.setprofile(None)
        window = PythonWindow()
        threading.setprofile(profiler)
        window.close()
        window.read()
        assert threading.getprofile() is profiler
    finally:
        threading.setprofile(None)


def test_signal_handlers_nest_where_they_interrupt():
    def handler(number, frame):
        leaf()

    def outer():
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in range(100):
            pass

    previous = signal.signal(signal.SIGUSR1, handler)
    try:
        call = record(outer)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    (handled,) = call.find("handler")
    assert shapes(handled) == ["leaf"]


def test_fork_records_in_the_parent_only():
    window = PythonWindow()

    def outer():
        process = os.fork()
        if process == 0:
            status = 1
            with contextlib.suppress(BaseException):
                leaf()
                inner = record(leaf)
                status = 0 if inner.name == "leaf" and sys.getprofile() is None else 2
            os._exit(status)
        return os.waitpid(process, 0)[1]

    assert outer() == 0
    window.close()
    (call,) = [found for root in window.read() for found in root.find("outer")]
    assert not call.unfinished
    assert call.find("leaf") == []


def test_a_process_that_ends_while_recording():
    program = (
        "import threading, time\n"
        "from opscope import _native\n"
        "_native.set_up_python('', '', '', None, None, None, None)\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "_native.open_window(_native.WANTS['PYTHON'], True)\n"
        "print(len('abc'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_nothing_is_kept_alive():
    class Thing:
        pass

    def make():
        thing = Thing()
        namespace = {}
        exec("def made(thing): return thing", namespace)
        namespace["made"](thing)
        return weakref.ref(thing), weakref.ref(namespace["made"].__code__)

    window = PythonWindow()
    thing, code = make()
    assert thing() is None, "no frame, argument or result is kept even while recording"
    window.close()
    window.read()
    gc.collect()
    assert code() is None, "functions are let go of with the last window"


def test_many_profiles_take_no_more_memory_than_few():
    def profile_once():
        window = PythonWindow()
        leaf()
        window.close()
        window.read()

    for _ in range(50):
        profile_once()
    objects, mapped = len(gc.get_objects()), _native.statistics()["mapped_bytes"]
    for _ in range(300):
        profile_once()
    assert _native.statistics()["mapped_bytes"] <= mapped
    assert len(gc.get_objects()) < objects + 100


def test_a_c_function_has_one_name_however_many_objects_threads_and_windows():
    names, lists = set(), []

    def work():
        lists.append([])
        lists[-1].clear()

    for _ in range(20):
        window = PythonWindow()
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        window.close()
        for root in window.read():
            names |= {call.name for call in root.find_all() if "clear of list" in call.name}
    assert len(names) == 1


def test_opscope_s_own_functions_are_left_out_with_what_they_call():
    namespace = {"leaf": leaf}
    source = "def ours(): return leaf(), sorted([2, 1], key=leaf)\n"
    exec(compile(source, "/hidden/ours.py", "exec"), namespace)
    program = "def runs(): return leaf()\n"
    exec(compile(program, "/hidden/program.py", "exec"), namespace)
    exec(compile("def ours_runs(): return runs()\n", "/hidden/other.py", "exec"), namespace)
    _native.set_up_python("/hidden/", "/hidden/shown.py", "/hidden/program.py", *[None] * 4)

    def outer():
        namespace["ours"]()
        leaf()
        namespace["ours_runs"]()

    try:
        call = record(outer)
    finally:
        _native.set_up_python("", "", "", *[None] * 4)
    assert shapes(call) == ["leaf", "leaf"], "the second is what the program's runner called"


class FakeModule:
    """Stands for nn.Module: what the recorder is told about is its __call__."""

    def __call__(self, *args):
        return self.forward(*args)

    def forward(self, *args):
        return leaf()


@pytest.fixture
def fake_modules():
    read = []
    _native.set_up_python(
        "", "", "", FakeModule.__call__, None, lambda m: read.append(m) or [], None
    )
    yield read
    _native.set_up_python("", "", "", *[None] * 4)


@pytest.mark.parametrize("wants", [("MODULES",), ("PYTHON",), ("PYTHON", "MODULES")])
def test_modules_whenever_their_class_was_made(fake_modules, wants):
    class Before(FakeModule):
        pass

    window = PythonWindow(*wants)

    class During(FakeModule):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    class Outer(FakeModule):
        def forward(self):
            return Before()(), During()()

    Outer()()
    with contextlib.suppress(TypeError):
        FakeModule.__call__()
    window.close()
    names = [name for root in window.read() for name in module_names(root)]
    assert names == ["nn.Module: Outer_0", "nn.Module: Before_0", "nn.Module: During_0"]
    assert len(fake_modules) == 3
    slots = [During.__call__, FakeModule.__call__]
    assert all(type(slot) is type(leaf) for slot in slots)


def module_names(call):
    names = [call.name] if call.name.startswith("nn.Module: ") else []
    for child in call.children:
        names += module_names(child)
    return names


def test_a_module_that_fails(fake_modules):
    class Failing(FakeModule):
        def forward(self):
            raise ValueError

    window = PythonWindow("MODULES")
    for _ in range(2):
        with pytest.raises(ValueError):
            Failing()()
    window.close()
    roots = window.read()
    assert len(roots) == 2
    assert not any(root.unfinished for root in roots)


def test_a_window_opened_inside_a_module(fake_modules):
    windows = []

    class Opening(FakeModule):
        def forward(self):
            windows.append(PythonWindow())

    Opening()()
    leaf()
    windows[0].close()
    (found,) = [call for root in windows[0].read() for call in root.find("leaf")]
    roots = windows[0].decoded
    assert not found.unfinished
    assert roots["unmatched_ends"] == 0


def test_an_address_used_again_is_another_module(fake_modules):
    window = PythonWindow("MODULES")
    for _ in range(5):
        FakeModule()()
    window.close()
    window.read()
    assert len(window.decoded["modules"]["address"]) == 5


def test_each_window_reads_a_module_s_parameters(fake_modules):
    module = FakeModule()
    first = PythonWindow("MODULES")
    module()
    second = PythonWindow("MODULES")
    module()
    module()
    second.close()
    first.close()
    assert fake_modules == [module, module]
    first.read()
    second.read()
    fake_modules.clear()


def test_modules_are_not_kept_alive(fake_modules):
    window = PythonWindow("MODULES")
    module = FakeModule()
    module()
    fake_modules.clear()
    reference = weakref.ref(module)
    del module
    assert reference() is None
    window.close()
    window.read()
