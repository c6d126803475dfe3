"""The nn.Module of every event, in forward and backward passes.

An event of the forward pass belongs to the innermost module call around it. The backward pass runs
outside all modules, on other threads; there autograd's sequence numbers identify the forward
operator of each node, and the node with everything inside it belongs to the module of that
operator. Accumulating a gradient has no number; the engine does it right after the node that
computed the gradient, so it belongs to the same module.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import opscope._native as _native
from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Rows
from opscope.timeline.tree.event_tree import event_arrays, numbers_of_threads
from opscope.timeline.tree.frame_text import MODULE_PREFIX, ModuleName, event_texts, module_names
from opscope.timeline.tree.links import forward_backward_links

NONE = -1

_STORES = ENGINE_PREFIX + "torch::autograd::AccumulateGrad"


@dataclass(frozen=True)
class ModuleAttribution:
    """The module of every event."""

    # names of modules, part by part, in order of first call: paths as in ``named_modules()``, or
    # else class and number after the names around them
    paths: list[tuple[str, ...]]
    classes: list[str]  # class of each path
    path: Rows  # row in ``paths`` of every event; -1 for no module. Shape (events,)
    call: Rows  # module call of every event, row in events; -1 for none. Shape (events,)
    is_backward: Flags  # belongs to the module through the backward pass. Shape (events,)

    def name(self, event: int) -> str:
        """Name of an event's module, as in ``blocks.3.mlp.0 (Linear)``; empty for none."""
        path = int(self.path[event])
        return self.text(path) if path >= 0 else ""

    def text(self, path: int) -> str:
        """Text of one of ``paths``, with its class unless the name contains it."""
        return module_text(".".join(self.paths[path]), self.classes[path])


def module_text(path: str, class_name: str) -> str:
    """``blocks.3.mlp.0 (Linear)``, or class and number alone, as in ``Linear_22``."""
    has_class = path.rpartition(".")[2].rpartition("_")[0] == class_name
    return path if has_class else f"{path} ({class_name})"


@derived
def attribute_to_modules(trace: TraceData) -> ModuleAttribution:
    """Find the module of every event; the same object for the same trace.

    Without recorded module calls (``with_modules`` or ``with_stack``) no event has one.
    """
    label, texts = event_texts(trace)
    names = trace.names
    is_engine = [name.startswith(ENGINE_PREFIX) for name in names]
    columns = _native.module_calls(
        event_arrays(trace),
        numbers_of_threads(trace),
        label,
        _linked_makers(trace),
        names.find(_STORES),
        np.array([*is_engine, False]),
    )
    number, paths, classes = _paths(trace, texts, columns["label"], columns["around"])
    path = np.append(number, np.int32(NONE))[columns["place"]]
    return ModuleAttribution(paths, classes, path, columns["call"], columns["is_backward"])


def _linked_makers(trace: TraceData) -> Rows:
    """Forward operator of each backward span by the trace's links; -1 none. Shape (events,)."""
    maker = np.full(len(trace.events), NONE, dtype=np.int32)
    if len(trace.table("links")):
        links = forward_backward_links(trace)
        earlier = links.source < links.target
        maker[links.target[earlier]] = links.source[earlier]
    return maker


def _paths(
    trace: TraceData,
    texts: list[str],
    labels: Rows,
    around: Rows,
) -> tuple[Rows, list[tuple[str, ...]], list[str]]:
    """Path of each place, shape (places,); all paths, and their classes.

    A place is all calls of one label inside those of an outer place, which precedes it.
    """
    names = module_names(trace)
    numbers: dict[tuple[str, ...], int] = {}
    number_of: dict[tuple[int, int], int] = {}  # by label and the path around it
    classes: list[str] = []
    paths: list[tuple[str, ...]] = []
    of_place: list[int] = []
    for label, place in zip(labels.tolist(), around.tolist(), strict=True):
        outer = of_place[place] if place >= 0 else NONE
        number = number_of.get((label, outer), NONE)
        if number == NONE:
            numbered = texts[label].removeprefix(MODULE_PREFIX)
            name = names.get(numbered) or ModuleName("", numbered.rpartition("_")[0], numbered)
            path = tuple(name.path.split(".")) if name.path else _below(paths, outer, numbered)
            number = number_of[label, outer] = numbers.setdefault(path, len(paths))
            if number == len(paths):
                paths.append(path)
                classes.append(name.class_name)
        of_place.append(number)
    return np.array(of_place, dtype=np.int32), paths, classes


def _below(paths: list[tuple[str, ...]], outer: int, numbered: str) -> tuple[str, ...]:
    """Outer path, class and number: for a module outside a network, or made in a call."""
    return (*(paths[outer] if outer >= 0 else ()), numbered)
