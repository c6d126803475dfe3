"""Columns that are read when they are asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor

from opscope.columns.table import ColumnsAsNeeded


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
