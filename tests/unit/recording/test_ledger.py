"""Rows of the ledger that hang on what this process could hear."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from opscope.recording import ledger
from opscope.recording.ledger import Recorded


@pytest.mark.parametrize(("reports_memory", "said"), [(True, False), (False, True)])
def test_a_torch_whose_allocations_cannot_be_recorded_is_reported(reports_memory, said):
    decoded = SimpleNamespace(
        account=defaultdict(int),
        tables={"allocations": []},
        no_room="memory budget",
        reports_memory=reports_memory,
        detail=None,
    )
    rows = [what for _, what, _ in ledger.allocations(Recorded(decoded, {}))]
    assert ("dropped: this torch reports memory to its own profiler only" in rows) is said
