"""A copy of a trace for other people: without values, or with the program's own names hashed.

The lists here name what stays; everything else is omitted or hashed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from opscope.base.program_files import is_library
from opscope.columns.names import STEP_PREFIX, Names
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData

_Data = TypeVar("_Data", bound=TraceData)
LEAVE_OUT = "OPSCOPE_LEAVE_OUT"
"""Environment variable: ``arguments`` or ``names``, which the process's traces omit."""
ARGUMENTS, NAMES = "arguments", "names"
CONFIDENTIAL = "confidential"  # metadata key with its value
_METADATA = frozenset(
    {"start_ns", "end_ns", "end_monotonic_ns", "options", "process_id", "parent_process_id"}
    | {"python_version", "torch_version", "recorded_in_detail", "trace_id"}
    | {CONFIDENTIAL, "profile_memory", "record_shapes", "with_modules", "with_stack", "with_flops"}
)
_TORCH_NAME = re.compile(
    r"(aten|prims?|autograd|torch|c10d|quantized|mkldnn|inductor|profiler)::[\w.:]+"
    r"(: [\w:]+Backward\d*|: torch::autograd::\w+)?"
    r"|\w+Backward\d+|detach|Optimizer\.\w+#(Adam|AdamW|SGD|RMSprop|Adagrad|Adafactor|LBFGS)\.\w+"
    rf"|{STEP_PREFIX}\d+|execute_context_[\d()]+_generation_[\d()]+|prefill|decode"
    r"|nccl:\w+|gloo:\w+|record_param_comms|cu(da|blas|dnn)\w+|python|cpu|cuda(:\d+)?|"
)
_CALL = re.compile(r"(.+)\((\d+)\): (.+)")
_PREFIX = re.compile(r"(nn\.Module: |request: |Optimizer\.\w+#|)(.*?)(_\d+|)")
_PACKAGE_FOLDER = re.compile(r".*/(site-packages|dist-packages|lib/python[\d.]+)/")


def apply_confidentiality(trace: _Data) -> _Data:
    """The trace, or a copy without the data that its process requested to omit."""
    omitted = trace.metadata.get(CONFIDENTIAL)
    return confidential_copy(trace, names=omitted != ARGUMENTS) if omitted else trace


def shown_detail(detail: str, omitted: str | None) -> str:
    """The cause of a dump, of a trace that omits this: an exception's message may have values, and
    its class a name."""
    if omitted is None:
        return detail
    return detail.partition(":")[0] if omitted == ARGUMENTS else ""


def confidential_copy(trace: _Data, *, names: bool = False) -> _Data:
    """Copy without argument values, texts of annotations, and the command line.

    Sizes of tensors and times stay.

    Args:
        trace: not changed.
        names: also omit source lines, and hash names that belong neither to torch nor to an
            installed library; hashes are equal within this copy only.
    """
    tables: dict[str, Any] = {name: trace.table(name) for name in TABLES if name != "metadata"}
    metadata = trace.metadata
    tables["scalars"] = {}
    metadata.pop("command_line", None)
    metadata.pop("user", None)
    if dump := metadata.get("dump"):
        metadata["dump"] = {**dump, "detail": shown_detail(str(dump.get("detail", "")), ARGUMENTS)}
    if names:
        tables["source_lines"] = {}
        metadata = {key: value for key, value in metadata.items() if key in _METADATA}
    used, tables = _renumbered(trace, tables)
    texts = [trace.names[row] for row in used.tolist()]
    if names:
        texts = list(map(_hashing(texts), texts))
    return type(trace)(tables, Names.from_strings(texts), metadata)


def _renumbered(trace: TraceData, tables: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Name rows that the tables refer to, and the tables with renumbered names."""
    kept = {name: table for name, table in tables.items() if len(table)}
    columns = {name: [c.name for c in TABLES[name].columns if c.refers == "names"] for name in kept}
    values = [kept[name][column] for name in kept for column in columns[name]]
    used = np.unique(np.concatenate([np.zeros(0, np.int32), *values]))
    used = used[used >= 0]
    place = np.full(len(trace.names) + 1, -1, dtype=np.int32)  # the last entry is for -1
    place[used] = np.arange(len(used))
    for name, table in kept.items():
        kept[name] = table.replaced({column: place[table[column]] for column in columns[name]})
    return used, kept


def _hashing(texts: list[str]) -> Callable[[str], str]:
    """Function from a name to its replacement in the copy."""
    key = secrets.token_bytes(16)
    calls = [match for text in texts if (match := _CALL.fullmatch(text))]
    library_names = {match[3] for match in calls if is_library(match[1])}

    def hashed(text: str) -> str:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), key=key, digest_size=5)
        return f"x{digest.hexdigest()}"

    def shown(text: str) -> str:
        if _TORCH_NAME.fullmatch(text) or text in library_names:
            return text
        if call := _CALL.fullmatch(text):
            if is_library(call[1]):
                return f"{_PACKAGE_FOLDER.sub('', call[1])}({call[2]}): {call[3]}"
            return f"{hashed(call[1])}({call[2]}): {shown(call[3])}"
        if _PACKAGE_FOLDER.match(text):
            return _PACKAGE_FOLDER.sub("", text)
        match = _PREFIX.fullmatch(text)
        return match[1] + hashed(match[2]) + match[3] if match else hashed(text)

    return shown
