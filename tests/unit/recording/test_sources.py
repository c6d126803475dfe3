"""The declarations of what can be recorded: none is missing, and none is there twice."""

import functools
import inspect
import operator
from collections import Counter
from dataclasses import asdict, fields

import pytest

import opscope
from opscope.columns.codes import CATEGORIES, WANTED_BY, EventKind, Want
from opscope.columns.schema import TABLES
from opscope.recording.sources import SOURCES, RecordingOptions, native_wants, switches

OF_ALL_SOURCES = {"events", "threads", "links", "ledger", "metadata"}
NOTHING = RecordingOptions(**{field.name: False for field in fields(RecordingOptions)})


def once(items):
    """The set of ``items``, none of which is there twice."""
    counts = Counter(items)
    assert set(counts.values()) <= {1}, counts
    return set(counts)


def test_every_option_bit_kind_and_table_is_declared_once():
    assert once(switch.option for switch in switches()) == set(asdict(NOTHING))
    assert once(switch.want for switch in switches() if switch.want) == set(Want)
    assert once(kind for source in SOURCES for kind in source.kinds) == set(EventKind)
    assert set(CATEGORIES) == set(EventKind)
    filled = once(table for source in SOURCES for table in source.tables)
    assert filled == set(TABLES) - OF_ALL_SOURCES


def test_parameters_are_those_of_profile_and_off_unless_requested():
    parameters = inspect.signature(opscope.profile).parameters
    for switch in switches():
        if switch.parameter:
            assert parameters[switch.parameter].default is False


@pytest.mark.parametrize("switch", list(switches()), ids=lambda switch: switch.option)
def test_an_option_sets_its_own_bit_and_no_other(switch):
    wants = native_wants(RecordingOptions(**{**asdict(NOTHING), switch.option: True}))
    assert wants == switch.want


def test_kinds_are_wanted_by_what_switches_their_source_on():
    for source in SOURCES:
        on = [s.want for s in switches() if s.option in source.wanted_with]
        for kind in source.kinds:
            assert WANTED_BY[kind] == functools.reduce(operator.or_, on)


def test_sources_are_wanted_with_their_options_only():
    always = {source.name for source in SOURCES if source.is_enabled_by(NOTHING)}
    assert always == {"events", "threads", "thread names", "detail", "clock"}
    for source in SOURCES:
        for option in source.wanted_with:
            assert source.is_enabled_by(RecordingOptions(**{**asdict(NOTHING), option: True}))
