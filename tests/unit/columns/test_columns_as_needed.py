"""Columns that are read when they are asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from opscope.columns.columns_as_needed import ColumnsAsNeeded


class Source:
    """Says what was read, and which of it is damaged."""

    def __init__(self, damaged=()):
        self.read, self.damaged = [], set(damaged)
        self.columns = ColumnsAsNeeded(["a", "b"], self._read, self._check)

    def _read(self, name):
        self.read.append(name)
        return [name]

    def _check(self, name):
        assert self.columns[name] == [name]  # is there for it, and not read once more
        if name in self.damaged:
            raise ValueError(name)


def test_each_is_read_once_and_nothing_before():
    source = Source()
    assert (len(source.columns), list(source.columns), "b" in source.columns) == (
        2,
        ["a", "b"],
        True,
    )
    assert source.read == []
    assert source.columns["b"] is source.columns["b"]
    assert source.read == ["b"]
    assert dict(source.columns) == {"a": ["a"], "b": ["b"]}
    assert source.read == ["b", "a"]


def test_one_that_there_is_not_is_none():
    source = Source()
    assert source.columns.get("c") is None
    assert "c" not in source.columns
    with pytest.raises(KeyError):
        source.columns["c"]
    assert source.read == []


def test_one_that_is_damaged_is_never_given():
    source = Source(damaged=["a"])
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            source.columns["a"]
    assert source.columns["b"] == ["b"]
    source.damaged.clear()
    assert source.columns["a"] == ["a"]
    assert source.read == ["a", "a", "b", "a"]


def test_many_threads_get_the_same_and_none_that_is_not_checked():
    begun, may_end = threading.Event(), threading.Event()

    def check(name):
        begun.set()
        assert may_end.wait(60)
        checked.append(name)

    checked, read = [], []
    columns = ColumnsAsNeeded(["a"], lambda name: read.append(name) or [name], check)

    def ask():
        return columns["a"], tuple(checked)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        assert begun.wait(60)
        may_end.set()
        found = [one.result() for one in asked]
    assert read == ["a"]
    assert all(one is found[0][0] and seen == ("a",) for one, seen in found)
