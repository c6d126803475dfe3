"""Folders for temporary files go with whoever needs them, however that ends."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from opscope.base.scratch import scratch_folder

PROGRAM = (
    "import sys\n"
    "from opscope.base.scratch import scratch_folder\n"
    "class Owner: pass\n"
    "owner = Owner()\n"
    "folder = scratch_folder(owner)\n"
    "(folder / 'file').write_text('x')\n"
    "print(folder, flush=True)\n"
    "sys.stdin.read()\n"
)


class Owner:
    pass


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def begun(place):
    """A process that has such a folder, and where."""
    other = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return other, place / os.path.basename(other.stdout.readline().strip())


def test_one_goes_with_its_owner(place):
    owner = Owner()
    folder = scratch_folder(owner)
    assert folder.parent == place and folder.stat().st_mode & 0o777 == 0o700
    (folder / "file").write_text("x")
    del owner
    assert not folder.exists()


def test_one_goes_with_its_process_or_is_removed_by_the_next_if_that_was_killed(place):
    used, kept = begun(place)
    other, left = begun(place)
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert left.exists()
    owner = Owner()
    folder = scratch_folder(owner)
    assert not left.exists()
    assert folder.exists() and (kept / "file").exists()  # whose process lives
    used.communicate("")
    assert not kept.exists()


def test_what_is_not_known_to_be_left_stays(place):
    unlocked, file = (place / f".opscope-scratch-1-{digit * 32}" for digit in "0f")
    unlocked.mkdir()  # may be about to be locked
    file.write_text("")
    owner = Owner()
    scratch_folder(owner)
    assert unlocked.exists() and file.exists()


def test_a_forked_child_leaves_it_to_its_parent(place):
    owner = Owner()
    folder = scratch_folder(owner)
    child = os.fork()
    if not child:
        del owner
        os._exit(0 if folder.exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert folder.exists()
    other = Owner()
    scratch_folder(other)  # nor does it look left since
    assert folder.exists()
