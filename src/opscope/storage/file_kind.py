"""Type of a file, from its first bytes or the keys of its outermost object.

A search for words would not suffice: arguments of a Chrome trace may have a key "nodes", and those
of an execution trace a key "ph".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from opscope.storage.unpacked_file import head_of

HEAD_BYTES = 1 << 20  # bytes that are examined; what identifies a file comes before


class FileKind(Enum):
    """Kinds of files."""

    CHROME = "a Chrome trace"
    EXECUTION_TRACE = (
        "an execution trace for PARAM and Chakra, which opscope does not read. Record the "
        "program with `opscope run` (with --shapes for `opscope export --replay`), and load "
        "what that writes"
    )
    SNAPSHOT = (
        "a memory snapshot of torch (torch.cuda.memory._dump_snapshot) and no trace. `opscope "
        "memory FILE` reads it"
    )
    PICKLE = (
        "a pickled Python object, not a trace. If it is a memory snapshot of torch, `opscope "
        "memory FILE` reads it"
    )
    DATABASE = "an SQLite database, as `nsys export` writes, which opscope does not read"
    PARQUET = "a single Parquet file, but a trace is a folder of them. Load the folder"
    OTHER = "something else"


_BINARY = (
    (re.compile(rb"\x80[\x02-\x05]|\(dp?\d|\}q\x00|\(lp?\d|ccollections\n|c__builtin__\n"), None),
    (re.compile(rb"SQLite format 3\0"), FileKind.DATABASE),
    (re.compile(rb"PAR1"), FileKind.PARQUET),
)
_SNAPSHOT_KEYS = (b"segments", b"device_traces", b"allocator_settings")
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(:?)|[{}\[\]]')
_NODE_KEYS = {"id", "name"}
_EVENT_KEYS = {"ph"}


def file_kind(path: Path) -> FileKind:
    """Kind of a file; ``OTHER`` if its begin does not show it."""
    head = head_of(path, HEAD_BYTES)
    for pattern, kind in _BINARY:
        if pattern.match(head):
            is_snapshot = any(key in head for key in _SNAPSHOT_KEYS)
            return kind or (FileKind.SNAPSHOT if is_snapshot else FileKind.PICKLE)
    return kind_of_json(head.decode(json.detect_encoding(head), "replace"))


def kind_of_json(text: str) -> FileKind:
    """Kind of a JSON file, from the first part of its text."""
    for path, keys in _objects(text):
        if path in ("[", "{traceEvents[") and keys >= _EVENT_KEYS:
            return FileKind.CHROME
        if path == "{nodes[" and keys >= _NODE_KEYS and not keys & _EVENT_KEYS:
            return FileKind.EXECUTION_TRACE
        if path == "" and "traceEvents" in keys:
            return FileKind.CHROME
        if path == "" and (keys >= _EVENT_KEYS or {"nodes", "schema"} <= keys):
            return FileKind.CHROME if keys >= _EVENT_KEYS else FileKind.EXECUTION_TRACE
    return FileKind.OTHER


def _objects(text: str) -> Iterator[tuple[str, set[str]]]:
    """Path and keys of each object near the outermost, as soon as they are known.

    The path ``{traceEvents[`` is the list of that key in the outermost object, whose path is empty.
    """
    path: list[str] = []
    keys: dict[int, set[str]] = {0: set()}
    key = ""
    for token in _TOKEN.finditer(text):
        bracket = token[0]
        if bracket in "{[":
            step = f"{key}{bracket}" if path and path[-1][-1] == "{" else bracket
            if key == "traceEvents" and len(path) == 1 and bracket == "[":
                yield "", {"traceEvents"}
            path.append(step)
            keys[len(path)] = set()
            key = ""
        elif bracket in "}]":
            if not path:
                return
            if bracket == "}" and len(path) <= 3:
                yield "".join(path[:-1]), keys[len(path)]
            path.pop()
        elif token[2] and len(path) <= 3:
            key = token[1]
            keys[len(path)].add(key)
