"""Builds a trace in another process, from a copied log and the facts of the recorded process.

The log has the records (``native/log/log_copy.h``); the facts are JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.daemon_thread import let_others_run
from opscope.base.memory_limit import memory_for
from opscope.base.untrusted_files import Shape, has_shape, reading
from opscope.columns.confidential_copy import apply_confidentiality
from opscope.columns.overloads import described
from opscope.columns.trace_data import TraceData
from opscope.columns.validate import checked_trace
from opscope.recording.assemble import assemble_trace, knows_overloads
from opscope.recording.compiled.listener import GeneratedCode
from opscope.recording.cost import cost_by_kind
from opscope.recording.decoded import read_decoded
from opscope.recording.facts.process_facts import process_facts
from opscope.recording.facts.program_facts import with_state
from opscope.recording.facts.python_source import path_prefixes
from opscope.recording.facts.thread_samples import ThreadSamples
from opscope.recording.ledger import Row
from opscope.recording.listeners import DeviceActivity
from opscope.recording.sources import RecordingOptions, listeners_of

_FACTS: Shape = {
    "options": dict,
    "prefixes": [str],
    "metadata": dict,
    "cost": dict,
    "known": dict,
}
_NAMES_AT_ONCE = 3
"""Operators whose overloads are read at once, with the GIL held: about 60 µs each."""


class ProcessKnowledge:
    """Facts about this process for all windows with the same options."""

    def __init__(self, options: RecordingOptions) -> None:
        self._options = options
        # Made once: every dump includes it, while the program waits for the GIL.
        stored_options = replace(options, thread_samples=False)  # only whole recordings have these
        self._stored_options = asdict(stored_options)
        of_one_window = (DeviceActivity, ThreadSamples)
        self._listeners = [x for x in listeners_of(options) if not isinstance(x, of_one_window)]
        self._overloads: dict[str, list[str]] = {}
        self._names_seen = 0

    def begin(self) -> None:
        """Start the listeners."""
        for listener in self._listeners:
            listener.begin()

    def end(self) -> None:
        """Stop the listeners; idempotent."""
        for listener in reversed(self._listeners):
            listener.end()

    def facts(self, whole: bool = False) -> dict[str, Any]:
        """Current facts as JSON; ``whole``: with calls in code that torch.compile generated."""
        for listener in self._listeners:
            listener.before_end()
        return {
            "options": self._stored_options,
            "prefixes": path_prefixes(),
            "metadata": process_facts(),
            "cost": cost_by_kind(self._options),
            "known": {type(one).__name__: one.known(whole) for one in self._listeners},
            "overloads": self._known_overloads(),
        }

    def _known_overloads(self) -> dict[str, list[str]]:
        if not knows_overloads(self._options):
            return {}
        met = _native.names_from(self._names_seen)
        self._names_seen += len(met)
        names = [name for name in met if "::" in name]
        for begin in range(0, len(names), _NAMES_AT_ONCE):
            self._overloads |= described(names[begin : begin + _NAMES_AT_ONCE])
            let_others_run()
        return self._overloads


def trace_of_log(
    log: bytes,
    facts: Mapping[str, Any],
    more_rows: Sequence[Row] = (),
    sites: Mapping[str, Any] | None = None,
    source: Path | str = "what was recorded",
) -> TraceData:
    """The trace of a log that another process wrote, which may be gone.

    ``facts`` are from :class:`ProcessKnowledge`; ``sites`` are calls of torch.compile's graphs
    that ``facts`` lacks, from ``read_sites``. Raises TraceFormatError if the log is damaged or of
    another version, and InsufficientMemoryError if the trace does not fit in memory.
    """
    with memory_for("decoding what was recorded"), reading(source):
        if not has_shape(facts, _FACTS):
            raise ValueError("its metadata is not from opscope")
        options = RecordingOptions.from_mapping(facts["options"])
        decoded = read_decoded(_native.decode_copy(log, list(facts["prefixes"])))
        notes = [facts["known"], {GeneratedCode.__name__: {"sites": sites or {}}}]
        decoded = with_state(decoded, options, notes)
        trace = assemble_trace(decoded.with_notes(more_rows), options, facts["cost"])
        known = dict(facts["metadata"])
        if met := facts.get("overloads"):  # the same form as in assemble_trace
            known["overloads"] = {name: met[name] for name in trace.names if name in met}
        trace = apply_confidentiality(trace.with_metadata(known))
        return checked_trace(trace, str(source))
