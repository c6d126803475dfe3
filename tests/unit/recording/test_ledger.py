"""What the ledger says of a recording."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from opscope.recording import ledger
from opscope.recording.ledger import Recorded

SILENT = "recorded nothing, so that what they freed was not heard"


def rows_of_threads(monkeypatch, version, recorded, of_process, memory=True):
    account = defaultdict(int, recorded_threads=recorded, process_threads=of_process)
    decoded = SimpleNamespace(account=account, occupied_threads=0)
    monkeypatch.setattr(ledger, "sys", SimpleNamespace(version_info=version))
    options = {"memory": memory, "stack": False, "functions": False, "own_functions": False}
    return {what: value for _, what, value in ledger.threads(Recorded(decoded, options))}


@pytest.mark.parametrize(
    ("version", "recorded", "of_process", "memory", "silent"),
    [
        ((3, 13), 2, 5, True, 3),
        ((3, 12), 2, 5, True, 3),
        ((3, 11), 2, 5, True, None),  # each has come by
        ((3, 12), 2, 5, False, None),
        ((3, 12), 2, 1, True, None),  # some have ended
    ],
)
def test_threads_that_nobody_heard_are_counted(
    monkeypatch, version, recorded, of_process, memory, silent
):
    found = rows_of_threads(monkeypatch, version, recorded, of_process, memory)
    assert found.get(SILENT) == silent
