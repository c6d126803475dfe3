"""Compiling the bridge: once, whoever asks at the same time, and never half."""

import fcntl
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from opscope import _native
from opscope.base.cache_folder import cache_folder
from opscope.errors import BridgeError
from opscope.recording.bridge import bridge

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Workshop:
    """A cache of its own, and a compiler that copies a bridge made before and notes its calls."""

    def __init__(self, folder, finished):
        self.cache = folder / "cache"
        self.calls_file = folder / "calls"
        self.compiler = folder / "compiler"
        self.finished = finished
        self.write_compiler(f'cp "{finished}" "$out"')

    def write_compiler(self, last_command):
        self.compiler.write_text(
            f"""#!/bin/sh
echo "$@" >> "{self.calls_file}"
while [ $# -gt 0 ]; do [ "$1" = -o ] && out="$2"; shift; done
{last_command}
"""
        )
        self.compiler.chmod(0o755)

    @property
    def calls(self):
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []

    @property
    def leftovers(self):
        """What stands in the cache beside bridges and their lock files."""
        return [p.name for p in self.cache.iterdir() if not p.name.startswith("bridge-torch-")]


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    finished = bridge.build()  # the real one, usually there already
    made = Workshop(tmp_path, finished)
    monkeypatch.setenv("OPSCOPE_CACHE", str(made.cache))
    monkeypatch.setenv("CXX", str(made.compiler))
    return made


def test_it_is_compiled_once_found_and_replaced_without_a_gap_or_not_at_all(workshop):
    (workshop.cache / "build-of-another").mkdir(parents=True)
    path = bridge.build()
    assert path.read_bytes() == workshop.finished.read_bytes()
    assert workshop.cache in path.parents and bridge.build() == path
    assert len(workshop.calls) == 1
    workshop.write_compiler(f'test -f "{path}" || exit 1; cp "{workshop.finished}" "$out"')
    with open(path, "rb") as loaded:
        assert bridge.build(force=True) == path
        assert loaded.read() == path.read_bytes()
    assert len(workshop.calls) == 2 and workshop.leftovers == ["build-of-another"]
    workshop.write_compiler("exit 1")
    with pytest.raises(BridgeError):
        bridge.build(force=True)
    assert bridge.build() == path


def test_one_of_eight_that_ask_at_once_is_killed_while_it_compiles(workshop):
    first = workshop.cache.parent / "first"
    workshop.write_compiler(
        f'mkdir "{first}" 2>/dev/null && kill -9 $PPID; cp "{workshop.finished}" "$out"'
    )
    bridge.status()  # everything slow and shared is done before
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if bridge._is_valid(bridge.build()) else 2
            finally:
                os._exit(status)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(ends) == [-signal.SIGKILL] + [0] * 7
    assert len(workshop.calls) == 2
    for name in workshop.leftovers:
        os.utime(workshop.cache / name, (0, 0))  # long ago
    bridge.build(force=True)
    assert workshop.leftovers == []


def test_threads_that_ask_at_once_compile_once(workshop):
    workshop.write_compiler(f'sleep 0.2; cp "{workshop.finished}" "$out"')
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: bridge.build(), range(4)))
    assert len(paths) == len(workshop.calls) == 1


DAMAGES = {
    "cut": lambda path, stamp: path.write_bytes(path.read_bytes()[:99]),
    "changed": lambda path, stamp: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "gone": lambda path, stamp: path.unlink(),
    "stamp cut": lambda path, stamp: stamp.write_text(stamp.read_text()[:20]),
    "stamp gone": lambda path, stamp: stamp.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_bridge_is_compiled_again(workshop, damage):
    path = bridge.build()
    content = path.read_bytes()
    damage(path, path.parent / "stamp.json")
    assert not bridge.status().built
    assert bridge.build() == path
    assert path.read_bytes() == content
    assert len(workshop.calls) == 2


def test_a_lock_somebody_holds_for_too_long(workshop, monkeypatch):
    monkeypatch.setattr(bridge, "LOCK_TIMEOUT_S", 0.0)
    folder = bridge._library_path().parent
    folder.parent.mkdir(parents=True)
    with open(folder.parent / (folder.name + ".lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BridgeError, match=r"\.lock for 0 s.*delete this file"):
            bridge.build()
    assert bridge._is_valid(bridge.build())


@pytest.mark.parametrize(
    ("last_command", "said"),
    [
        ("exit 0", r"printed nothing\.\n.*C\+\+20"),
        ("printf '\\377 error' >&2; exit 1", "\ufffd error"),
        ("head -c 99 /dev/zero > $out; kill -9 $$", r"Signal 9 ended the compiler.*more memory\.$"),
        ("echo 't.cpp:1: error: no such thing' >&2; exit 3", "error: no such thing"),
    ],
)
def test_a_compiler_that_makes_nothing_leaves_nothing(workshop, last_command, said):
    workshop.write_compiler(last_command)
    with pytest.raises(BridgeError, match=f"(?s)did not compile.*{workshop.compiler}.*{said}"):
        bridge.build()
    assert workshop.leftovers == [] and not bridge.status().built
    workshop.write_compiler(f'cp "{workshop.finished}" "$out"')
    assert bridge._is_valid(bridge.build())


def test_a_compiler_that_is_no_program(workshop):
    workshop.compiler.write_text("not a program")
    with pytest.raises(BridgeError, match=r"compiler .* cannot be run .* Set CXX"):
        bridge.build()
    assert workshop.leftovers == []


@pytest.mark.parametrize("full", ["cache", "temporary folder"])
def test_a_disk_that_fills_while_it_compiles(workshop, monkeypatch, tmp_path, full):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    place = workshop.cache if full == "cache" else tmp_path / "temporary"

    def disk_usage(path):
        is_full = place == Path(path) or place in Path(path).parents
        return SimpleNamespace(free=4096 if is_full else 1 << 40)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    workshop.write_compiler('echo "ld: final link failed: No space left on device" >&2; exit 1')
    with pytest.raises(BridgeError, match=r"(?s)No space left.*The disk of .* is full.*TMPDIR"):
        bridge.build()
    assert workshop.leftovers == []


def test_options_in_the_compilers_name_are_passed_on(workshop, monkeypatch):
    monkeypatch.setenv("CXX", f"{workshop.compiler} -march=native '-DTWO WORDS'")
    bridge.build()
    assert "-march=native -DTWO WORDS" in workshop.calls[0]
    assert "-DNDEBUG" in workshop.calls[0]


def test_a_library_that_cannot_be_loaded_says_how_to_build_it_again(workshop, monkeypatch):
    workshop.write_compiler('echo "no library at all" > "$out"')
    monkeypatch.setattr(bridge, "_loaded", None)
    with pytest.raises(BridgeError, match=r"could not be loaded.*opscope doctor --build --force"):
        bridge.load()
    monkeypatch.undo()
    bridge.load()
    assert _native.statistics()["wanted"] == 0


def test_another_torch_or_source_has_another_place(workshop, monkeypatch):
    here = bridge._library_path()
    places = {here}
    for what in ("torch", "torch_git", "cxx11_abi", "platform", "flags", "source"):
        other = {**bridge._fingerprint(), what: "another"}
        with monkeypatch.context() as patched:
            patched.setattr(bridge, "_fingerprint", lambda other=other: other)
            places.add(bridge._library_path())
    assert len(places) == 7


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("OPSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "opscope"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "opscope"


def test_without_torch_it_says_what_to_install(monkeypatch):
    bridge._fingerprint.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", None)
    for needs_torch in (bridge.status, bridge.build):
        with pytest.raises(BridgeError, match="pip install torch"):
            needs_torch()
    monkeypatch.undo()
    bridge.status()


@pytest.mark.parametrize("who", ["the cache", "its bridge"])
def test_nothing_is_loaded_from_where_others_can_write(workshop, monkeypatch, who):
    path = bridge.build()
    content = path.read_bytes()
    if who == "its bridge":
        path.chmod(0o777)
        assert not bridge.status().built
        assert bridge.build() == path  # anew
        assert path.read_bytes() == content and path.stat().st_mode & 0o022 == 0
        assert len(workshop.calls) == 2
        return
    workshop.cache.chmod(0o777)
    assert not bridge.status().built
    monkeypatch.setattr(bridge, "_loaded", None)
    message = rf"all users may write to {workshop.cache}\. Set OPSCOPE_CACHE"
    for ask in (bridge.build, bridge.load):
        with pytest.raises(BridgeError, match=message):
            ask()
    assert len(workshop.calls) == 1


def test_a_cache_is_made_for_us_alone_to_write(workshop):
    workshop.write_compiler(f'cp "{workshop.finished}" "$out"; chmod 777 "$out"')
    before = os.umask(0)
    try:
        assert bridge._is_valid(bridge.build())
    finally:
        os.umask(before)


def test_a_compilers_name_that_no_shell_would_take(workshop, monkeypatch, tmp_path):
    odd = tmp_path / 'a compiler"'
    workshop.compiler.rename(odd)
    monkeypatch.setenv("CXX", str(odd))
    assert bridge._is_valid(bridge.build())
    assert len(workshop.calls) == 1
