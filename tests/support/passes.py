"""What native passes over a trace say: accounts, modules, parts of a step, lines and operators."""

from __future__ import annotations

from opscope.analysis.account.divided import divide, main_time
from opscope.analysis.function_lines import widest_gaps
from opscope.analysis.sites import Sites
from opscope.jobs.rollup.contents import line_columns, operator_columns
from opscope.timeline.listing import TorchListing
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.period import Which, period_of
from opscope.timeline.phases import find_phases
from opscope.timeline.stacks import Stacks, forward_source
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.line_nesting import own_times
from support.rolled_up import places_of


def said_of(trace):
    """By name of the pass the columns that it gives, in an order of their own."""
    phases, modules, listing = find_phases(trace), attribute_to_modules(trace), TorchListing(trace)
    sites, tree = Sites(listing), event_tree(trace)
    own = main_time(trace, Which.ALL)
    places = places_of(trace).time_ns
    return {
        "account": [amounts for part in _sums(trace) for amounts in part],
        "pieces": [own.step, own.event, own.cause, own.time_ns, own.start_ns, own.end_ns],
        "phases": [phases.phase, phases.outermost, phases.around],
        "modules": [modules.call, modules.is_backward],
        "listing": [listing.listed, listing.nested, listing.parent],
        "sources": [forward_source(listing), Stacks(listing).innermost],
        "sites": [sites.around, *sites.at],
        "gaps": widest_gaps(
            tree.parent, sites.defined_here, sites.frame.clip(0), sites.caller_line,
            tree.start_ns, tree.duration_ns,
        ),
        "own times": [own_times(trace)],
        "operators": _rows(operator_columns(trace)),
        "lines": _rows(line_columns(sites)),
        "places": [
            sorted((cause, str(at), ns) for cause, of in places.items() for at, ns in of.items())
        ],
    }  # fmt: skip


def _sums(trace):
    periods = [period_of(trace, which) for which in (Which.ALL, Which.STEADY)]
    return [part for period in periods for part in divide(trace, period).sums]


def _rows(columns):
    return [[name, *map(str, column)] for name, column in sorted(columns.items())]
