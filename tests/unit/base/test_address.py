"""What is an address, and what of it is shown."""

from pathlib import Path

import pytest

from opscope.base.address import address_of, path_of, refuse_address, shown_address
from opscope.errors import UsageError


def test_a_slash_that_a_path_loses_is_no_matter():
    for text in (
        "s3://bucket/job",
        "zip://train.opscope::s3://bucket/all.zip",
        "zip://train.opscope::file:///tmp/all.zip",
        "simplecache::s3://bucket/job",
        "http://host/a%20b.json?x=1",
        "s3://bucket/a#b c/ü?.opscope",
    ):
        assert address_of(text) == address_of(Path(text)) == text


def test_local_files_are_in_the_file_system(tmp_path):
    folder = tmp_path / "a b#ü%41"
    folder.mkdir()
    for text in (folder.as_uri(), f"file://{folder}", f"local://{folder}", str(folder)):
        assert address_of(text) is None
        assert path_of(text) == path_of(Path(text)) == folder
    assert path_of("file:///nowhere/a%20b") == Path("/nowhere/a%20b")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://key:secret@bucket/job?region=x", "s3://bucket/job"),
        ("s3://key:sec/re@t/x@bucket/job", "s3://bucket/job"),
        ("s3://key:sec?ret@bucket/job", "s3://bucket/job"),
        ("s3://bucket/mail@home/job", "s3://bucket/mail@home/job"),
        ("http://host:80/mail@home", "http://host:80/mail@home"),
        ("zip://a::http://u:pass@host/a.zip?token=b", "zip://a::http://host/a.zip"),
        ("simplecache::s3://u:pass@bucket/job", "simplecache::s3://bucket/job"),
    ],
)
def test_a_password_is_not_shown(address, shown):
    assert shown_address(address) == shown
    with pytest.raises(UsageError) as found:
        refuse_address(Path(address))
    assert str(found.value).startswith(f"{shown} is a remote address")
