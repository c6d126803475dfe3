"""Which nn.Module every event worked for, in the forward pass and in the backward pass.

An event of the forward pass belongs to the module whose call is closest around it. The backward
pass runs outside all modules, on other threads; there autograd's sequence numbers tell which
forward operator made each node, and the node with all that it calls belongs to the module of that
operator. Storing a gradient in its parameter has no number; the engine does it right after the node
that computed the gradient, so it belongs to the same module.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from opscope.trace.schema import EventKind, RecordScope
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor
from opscope.tree.event_tree import event_tree
from opscope.tree.frame_text import MODULE_PREFIX, ModuleName, event_texts, module_names
from opscope.tree.links import forward_backward_links, thread_numbers

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NONE = -1

_ENGINE = "autograd::engine::evaluate_function: "
_STORES = _ENGINE + "torch::autograd::AccumulateGrad"

_ATTRIBUTIONS: WeakKeyDictionary[Trace, ModuleAttribution] = WeakKeyDictionary()


@dataclass(frozen=True)
class ModuleAttribution:
    """The module of every event.

    Attributes:
        paths: what modules are called, part by part, in order of first call: their paths as
            ``named_modules()`` gives them, or else class and number after what is around them.
        classes: the class of each.
        path: of every event, a position in ``paths``; -1 for no module. Shape (events,).
        call: the module call of every event, a row in events; -1 for none. Shape (events,).
        is_backward: whether it belongs to the module through the backward pass. Shape (events,).
    """

    paths: list[tuple[str, ...]]
    classes: list[str]
    path: Values
    call: Values
    is_backward: Flags

    def name(self, event: int) -> str:
        """What an event's module is called, as in ``blocks.3.mlp.0 (Linear)``; empty for none."""
        path = int(self.path[event])
        return self.text(path) if path >= 0 else ""

    def text(self, path: int) -> str:
        """One of ``paths``, with its class where it does not say that itself."""
        return module_text(".".join(self.paths[path]), self.classes[path])


def module_text(path: str, class_name: str) -> str:
    """``blocks.3.mlp.0 (Linear)``; class and number, as in ``Linear_22``, say the class."""
    says_it = path.rpartition(".")[2].rpartition("_")[0] == class_name
    return path if says_it else f"{path} ({class_name})"


def attribute_to_modules(trace: Trace) -> ModuleAttribution:
    """Find the module of every event; the same object for the same trace.

    Without recorded module calls (``with_modules`` or ``with_stack``) no event has one.
    """
    found = _ATTRIBUTIONS.get(trace)
    if found is None:
        found = _ATTRIBUTIONS[trace] = _attribute(trace)
    return found


def _attribute(trace: Trace) -> ModuleAttribution:
    parent = event_tree(trace).parent
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    maker = _makers(trace)
    _add_stores(trace, maker)
    is_made = maker >= 0
    # The closest span, itself included, that says which module an event is for.
    rows = np.arange(len(parent))
    decisive = is_module | is_made
    closest = np.where(decisive, rows, nearest_ancestor(parent, decisive)).astype(np.int64)
    own = np.where(is_module, rows, NONE)
    call = _follow(closest, own, maker)
    is_backward = (closest >= 0) & is_made[closest] & (call >= 0)
    around = nearest_ancestor(parent, is_module).astype(np.int64)
    # Where no span tells the module, the module call around the event is taken.
    call = np.where(call >= 0, call, np.where(is_module, own, around))
    path_of_call, paths, classes = _paths(trace, np.flatnonzero(is_module), around)
    path = np.where(call >= 0, path_of_call[call], NONE)
    return ModuleAttribution(paths, classes, path, call, is_backward)


def _follow(closest: Values, call: Values, maker: Values) -> Values:
    """The module call of every event, from its deciding span and from span to maker to span.

    Gradients of gradients go across more than once; makers start before what they made, so this
    ends.
    """
    result = np.where(closest >= 0, call[closest], NONE)
    pending = np.flatnonzero((closest >= 0) & (result < 0))
    at = closest[pending]
    while pending.size:
        at = closest[maker[at]]
        known = at >= 0
        pending, at = pending[known], at[known]
        result[pending] = call[at]
        unknown = result[pending] < 0
        pending, at = pending[unknown], at[unknown]
    return result


def _makers(trace: Trace) -> Values:
    """The forward operator behind every span of the backward pass, else -1. Shape (events,).

    Of operators that share a sequence number the last one to start before made the node; a graph
    that is kept runs more than once. Arrows given in the trace stand in where there are no numbers.
    """
    events = trace.events
    maker = np.full(len(events), NONE, dtype=np.int64)
    if len(trace.table("links")):
        links = forward_backward_links(trace)
        earlier = links.source < links.target
        maker[links.target[earlier]] = links.source[earlier]
    numbered = np.flatnonzero(events["sequence_number"] >= 0)
    is_made = events["forward_thread"][numbered] > 0
    makes = (events["scope"][numbered] == RecordScope.FUNCTION) & ~is_made
    makes &= events["kind"][numbered] == EventKind.OPERATOR
    rows, is_made = numbered[makes | is_made], is_made[makes | is_made]
    thread = np.where(is_made, events["forward_thread"][rows], thread_numbers(trace)[rows])
    number = events["sequence_number"][rows]
    order = np.lexsort((rows, number, thread))
    rows, is_made, thread, number = rows[order], is_made[order], thread[order], number[order]
    starts = np.ones(len(rows), dtype=np.bool_)
    starts[1:] = (np.diff(thread) != 0) | (np.diff(number) != 0)
    place = np.arange(len(rows))
    group = np.maximum.accumulate(np.where(starts, place, 0))
    last = np.maximum.accumulate(np.where(is_made, NONE, place))
    found = is_made & (last >= group)
    maker[rows[found]] = rows[last[found]]
    return maker


def _add_stores(trace: Trace, maker: Values) -> None:
    """Give spans that store a gradient the maker of the span just before, in place."""
    events, names = trace.events, trace.names
    stores = events["name"] == names.find(_STORES)
    if names.find(_STORES) < 0:
        return
    used = np.unique(events["name"][maker >= 0])
    engine = [name for name in used.tolist() if names[name].startswith(_ENGINE)]
    computes = np.isin(events["name"], engine) & (maker >= 0) & ~stores
    parent, thread = events["parent"], events["thread"]
    beside = np.isin(parent, np.unique(parent[stores])) & (events["kind"] != EventKind.GC_PAUSE)
    rows = np.flatnonzero(beside)
    rows = rows[np.lexsort((rows, thread[rows], parent[rows]))]
    breaks = np.ones(len(rows), dtype=np.bool_)
    breaks[1:] = (np.diff(thread[rows]) != 0) | (np.diff(parent[rows]) != 0)
    breaks |= ~computes[rows] & ~stores[rows]
    place = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(computes[rows], place, NONE))
    broken = np.maximum.accumulate(np.where(breaks & ~computes[rows], place, NONE))
    found = stores[rows] & (last >= 0) & (last > broken)
    maker[rows[found]] = maker[rows[last[found]]]


def _paths(
    trace: Trace, calls: Values, around: Values
) -> tuple[Values, list[tuple[str, ...]], list[str]]:
    """Number of the path of every module call, shape (events,), the paths, and their classes."""
    label_of_event, texts = event_texts(trace)
    known = module_names(trace)
    numbers: dict[tuple[str, ...], int] = {}
    found: dict[tuple[int, int], int] = {}  # of a label in the call of a path: steps repeat
    classes: list[str] = []
    path_of = {NONE: NONE}
    paths: list[tuple[str, ...]] = []
    labels, parents = label_of_event[calls].tolist(), around[calls].tolist()
    for row, label, parent in zip(calls.tolist(), labels, parents, strict=True):
        outer = path_of[parent]  # parents start first, so theirs is known
        number = found.get((label, outer), NONE)
        if number != NONE:
            path_of[row] = number
            continue
        numbered = texts[label].removeprefix(MODULE_PREFIX)
        name = known.get(numbered) or ModuleName("", numbered.rpartition("_")[0], numbered)
        path = tuple(name.path.split(".")) if name.path else _after(paths, outer, numbered)
        number = numbers.setdefault(path, len(paths))
        if number == len(paths):
            paths.append(path)
            classes.append(name.class_name)
        found[label, outer] = path_of[row] = number
    result = np.full(len(trace.events), NONE, dtype=np.int64)
    result[calls] = [path_of[row] for row in calls.tolist()]
    return result, paths, classes


def _after(paths: list[tuple[str, ...]], outer: int, numbered: str) -> tuple[str, ...]:
    """Class and number after what is around: of a module that is in no network, or made in it."""
    return (*(paths[outer] if outer >= 0 else ()), numbered)
