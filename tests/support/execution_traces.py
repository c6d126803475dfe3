"""Reading execution traces back in tests, and comparing two of the same run."""

from __future__ import annotations

import contextlib
import gzip
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from opscope.columns.schema import Role

PROCESS = "[pytorch|profiler|execution_trace|process]"
THREAD = "[pytorch|profiler|execution_trace|thread]"


def nodes_of(path: str | Path) -> list[dict[str, Any]]:
    """The nodes in order of id, each with its attributes by name under ``attributes``."""
    content = Path(path).read_bytes()
    nodes = json.loads(gzip.decompress(content) if str(path).endswith(".gz") else content)["nodes"]
    for node in nodes:
        node["attributes"] = {a["name"]: a["value"] for a in node["attrs"]}
    return sorted(nodes, key=lambda node: node["id"])


def named(nodes: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The one node of that name."""
    [node] = [node for node in nodes if node["name"] == name]
    return node


def names_of(nodes: list[dict[str, Any]]) -> list[str]:
    """In order, without the process and the threads."""
    return [node["name"] for node in nodes if node["name"] not in (PROCESS, THREAD)]


def record_function_ids(nodes: list[dict[str, Any]]) -> list[int]:
    """Sorted, of all nodes but the process and the threads."""
    own = [node for node in nodes if node["name"] not in (PROCESS, THREAD)]
    return sorted(node["attributes"]["rf_id"] for node in own)


def timeline_ids(path: str | Path) -> list[int]:
    """Sorted ``Record function id`` of operators and annotations in a Chrome trace."""
    events = json.loads(Path(path).read_text())["traceEvents"]
    return sorted(
        event["args"]["Record function id"]
        for event in events
        if event.get("cat") in ("cpu_op", "user_annotation")
    )


def assert_same_run(torchs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """Both are of one run: nodes, parents, schemas, values, shapes, types and strides are equal.

    Ids of nodes, tensors and storages may be other numbers, as long as they are other numbers
    throughout. ``rf_id`` is given once, and rises on every thread.
    """
    assert [node["name"] for node in ours] == [node["name"] for node in torchs]
    same = _Renaming()
    for theirs, own in zip(torchs, ours, strict=True):
        same.nodes[theirs["id"]] = own["id"]
    for theirs, own in zip(torchs, ours, strict=True):
        where = f"{theirs['name']} #{theirs['id']}"
        assert own["ctrl_deps"] == same.nodes[theirs["ctrl_deps"]], where
        for side in ("inputs", "outputs"):
            assert list(own[side]) == list(theirs[side])
            for part in theirs[side]:
                same.check(theirs[side][part], own[side][part], f"{where} {side} {part}")
        _check_attributes(theirs, own, same, where)
    ids: dict[int, list[int]] = {}
    for node in ours:
        if node["name"] not in (PROCESS, THREAD):
            ids.setdefault(node["attributes"]["tid"], []).append(node["attributes"]["rf_id"])
    assert all(numbers == sorted(numbers) for numbers in ids.values())
    every = [number for numbers in ids.values() for number in numbers]
    assert len(set(every)) == len(every)


def _check_attributes(theirs: Any, own: Any, same: _Renaming, where: str) -> None:
    described = [(a["name"], a["type"]) for a in theirs["attrs"]]
    assert [(a["name"], a["type"]) for a in own["attrs"]][: len(described)] == described, where
    for name, value in theirs["attributes"].items():
        if name == "fw_parent":
            value = same.nodes.get(value, 0)
        if name != "rf_id":
            assert own["attributes"][name] == value, f"{where} {name}"


def _torch() -> str:
    with contextlib.suppress(PackageNotFoundError):
        return version("torch")
    return ""


_HAS_STRAY_IDS = _torch().startswith(("2.8.", "2.9."))
"""Numbers of tensors and memory in their traces: two may share one, and one may have two."""


class _Renaming:
    """Which number of one file stands for which of the other."""

    def __init__(self) -> None:
        self.nodes: dict[int, int] = {}
        self._objects: dict[int, int] = {}
        self._back: dict[int, int] = {}

    def check(self, theirs: Any, own: Any, where: str) -> None:
        """Values are equal but for numbers of objects, and what torch rounds to six digits."""
        if _is_tensor(theirs) and _is_tensor(own):
            for a, b in () if _HAS_STRAY_IDS else zip(theirs[:2], own[:2], strict=True):
                assert self._objects.setdefault(a, b) == b, where
                assert self._back.setdefault(b, a) == a, where
            assert own[2:] == theirs[2:], where
        elif isinstance(theirs, list) and isinstance(own, list):
            assert len(own) == len(theirs), where
            for a, b in zip(theirs, own, strict=True):
                self.check(a, b, where)
        elif isinstance(theirs, float):
            assert abs(own - theirs) <= 1e-6 * max(1.0, abs(theirs)), where
        else:
            assert own == theirs, where


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 6
        and isinstance(value[5], str)
        and all(isinstance(number, int) for number in value[:5])
    )


def part(role: Role = Role.INPUT_PART, **tensor: Any) -> dict[str, Any]:
    """A tensor inside a nested argument, from a :func:`~support.build_trace.tensor` row."""
    return {**tensor, "role": role}
