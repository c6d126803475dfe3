"""Output files appear whole or not at all, and gzip ones are ordinary gzip files."""

import os
import subprocess
import threading
import zlib

import numpy as np
import pytest

from opscope.errors import UsageError
from opscope.export.output_file import check_writable, write_file


def test_gzip_is_one_stream_that_any_reader_can_read(tmp_path):
    # GIVEN more blocks than are compressed at a time
    rng = np.random.default_rng(0)
    blocks = [rng.integers(0, 256, 100_000, dtype=np.uint8) for _ in range(20)]
    text = b"".join(bytes(b) for b in blocks)

    write_file(tmp_path / "a.gz", iter(blocks))

    # THEN a reader that knows only one member, as browsers do, gets everything
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert reader.decompress((tmp_path / "a.gz").read_bytes()) == text
    assert reader.eof and reader.unused_data == b""
    tool = subprocess.run(["gzip", "-dc", tmp_path / "a.gz"], capture_output=True, check=True)
    assert tool.stdout == text


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_failure_half_way_leaves_what_was_there(tmp_path, name):
    (tmp_path / name).write_bytes(b"before")

    def blocks():
        for _ in range(10):
            yield b"x" * 1000
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / name, blocks())

    assert (tmp_path / name).read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]
    assert not [t for t in threading.enumerate() if t.name.startswith("opscope-gzip")]


def test_an_unwritable_path_says_why(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match=r"missing/a\.json: No such file or directory"):
        write_file(tmp_path / "missing" / "a.json", [b"x"])
    with pytest.raises(UsageError, match="folder: Is a directory"):
        write_file(tmp_path / "folder", [b"x"])
    with pytest.raises(UsageError, match=r"file/a\.json: Not a directory"):
        write_file(tmp_path / "file" / "a.json", [b"x"])
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_full_disk_is_reported(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full, a Linux device that is always full")

    with pytest.raises(UsageError, match="No space left on device"):
        write_file("/dev/full", [b"x" * 100_000])


def test_a_link_keeps_pointing_to_its_file(tmp_path):
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")

    write_file(tmp_path / "link.json", [b"new"])

    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    received = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()

    write_file(tmp_path / "pipe", [b"a", b"b"])
    reader.join(timeout=10)

    assert received == [b"ab"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_very_long_name_still_fits(tmp_path):
    name = "n" * 250 + ".json"

    write_file(tmp_path / name, [b"x"])

    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a\0b", "\ud800.json"])
@pytest.mark.parametrize("use", [check_writable, lambda path: write_file(path, [b"x"])])
def test_names_that_no_file_can_have_are_refused(name, use):
    with pytest.raises(UsageError, match="not a valid file name"):
        use(name)
