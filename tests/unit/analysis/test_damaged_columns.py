"""Native passes over events trust no column: what does not fit is refused, or read as it is."""

from types import SimpleNamespace

import numpy as np
import pytest

from opscope import _native
from opscope.analysis import sites
from opscope.analysis.account import pieces
from opscope.timeline import listing, module_attribution, phases, stacks
from opscope.timeline.tree import line_nesting
from support.passes import said_of
from support.random_program import random_program

MODULES = (
    module_attribution, phases, stacks, pieces, sites, listing, line_nesting,
)  # fmt: skip
PASSES = (
    "module_calls", "phases", "stack_sources", "listing", "located_events", "lines_of_events",
    "causes_of_events", "TimeOfThreads", "nest_on_lines",
)  # fmt: skip


@pytest.fixture(scope="module")
def calls():
    """The arguments of one call of every pass."""
    found = {}

    def captured(name):
        def call(*arguments):
            found.setdefault(name, arguments)
            return getattr(_native, name)(*arguments)

        return call

    others = {name: getattr(_native, name) for name in dir(_native) if not name.startswith("_")}
    fake = SimpleNamespace(**{**others, **{name: captured(name) for name in PASSES}})
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "_native", fake)
        said_of(random_program(11, 90))
    return found


def damaged(value):
    """The same with one array in it replaced, in several ways; tuples and lists go deep."""
    if isinstance(value, np.ndarray):
        yield value[:-1]
        yield np.append(value, value[:1])
        yield value[:0]
        yield value.astype(np.float64)
        if value.dtype.kind in "iu":
            for number in (np.iinfo(value.dtype).max, np.iinfo(value.dtype).min):
                if len(value):
                    changed = value.copy()
                    changed[len(changed) // 2] = number
                    yield changed
    elif isinstance(value, tuple | list):
        for place, member in enumerate(value):
            for other in damaged(member):
                yield type(value)([*value[:place], other, *value[place + 1 :]])


@pytest.mark.parametrize("name", PASSES)
def test_no_column_crashes_a_pass(calls, name):
    refused = 0
    for arguments in damaged(calls[name]):
        try:
            found = getattr(_native, name)(*arguments)
            if name == "TimeOfThreads":
                found.sums()
                found.pieces(0, [0])
        except (ValueError, IndexError, TypeError):
            refused += 1
    assert refused
