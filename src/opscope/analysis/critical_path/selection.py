"""Which spans a name stands for: an operator, a module, a line of the program, a kernel."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from opscope.base.cached_property import cached_property
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.ancestry import nearest_ancestor
from opscope.timeline.tree.frame_text import event_texts, module_names, own_texts
from opscope.timeline.tree.links import forward_backward_links

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)")


class Selection:
    """Looks names up in a trace."""

    def __init__(self, trace: TraceData) -> None:
        self._trace = trace

    @cached_property
    def known(self) -> list[str]:
        """Names of spans."""
        return own_texts(self._trace)[1]

    def inside(self, name: str, around: Values) -> Flags:
        """Events that a name stands for, and all that runs in them. Shape (events,).

        Of modules and lines also the backward pass of what ran in them.
        """
        chosen = self._called(name)
        within = self._of_line(name) | self._of_module(name)
        if within.any():
            within |= nearest_ancestor(around, within) >= 0
            links = forward_backward_links(self._trace)
            within[links.target[within[links.source]]] = True
        chosen |= within
        return np.asarray(chosen | (nearest_ancestor(around, chosen) >= 0))

    def works(self, name: str) -> Values:
        """Work of devices with this name, rows in ``gpu``."""
        row = self._trace.names.find(name)
        return np.flatnonzero(self._trace.table("gpu")["name"] == row) if row >= 0 else _NO_ROWS

    def _called(self, name: str) -> Flags:
        result = np.zeros(len(self._trace.events), dtype=np.bool_)
        for label, texts in (event_texts(self._trace), own_texts(self._trace)):
            if name in texts:
                result |= label == texts.index(name)
        return result

    def _of_module(self, name: str) -> Flags:
        """Calls of the module with this path."""
        texts = {one.text for one in module_names(self._trace).values() if one.path == name}
        result = np.zeros(len(self._trace.events), dtype=np.bool_)
        for text in texts:
            result |= self._called(text)
        return result

    def _of_line(self, name: str) -> Flags:
        """Calls that a line of the program made itself."""
        result = np.zeros(len(self._trace.events), dtype=np.bool_)
        if (match := _LINE.fullmatch(name)) is None:
            return result
        frames, names = self._trace.table("frames"), self._trace.names
        ending = "/" + match["file"].lstrip("/")
        files = [("/" + names[file]).endswith(ending) for file in frames["file"]]
        wanted = np.array([*files, False], dtype=np.bool_)
        for table in ("python_calls", "operator_calls"):
            calls = self._trace.table(table)
            at = wanted[calls["caller"]] & (calls["caller_line"] == int(match["line"]))
            result[calls["event"][at]] = True
        return result


_NO_ROWS = np.zeros(0, dtype=np.int64)
