"""Decoding Chakra traces with Google's protobuf and a schema written down here.

Field names and numbers are those of mlcommons/chakra's schema/protobuf/et_def.proto.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {
    "AttributeProto": [
        ("name", 1, "string"), ("int32_val", 7, "int32"), ("int64_val", 9, "int64"),
        ("uint64_val", 13, "uint64"), ("bool_val", 27, "bool"), ("string_val", 29, "string"),
    ],
    "GlobalMetadata": [("version", 1, "string"), ("attr", 2, "*AttributeProto")],
    "IOInfo": [("values", 1, "string"), ("shapes", 2, "string"), ("types", 3, "string")],
    "Node": [
        ("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32"),
        ("ctrl_deps", 4, "*uint64"), ("data_deps", 5, "*uint64"),
        ("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64"),
        ("inputs", 8, "IOInfo"), ("outputs", 9, "IOInfo"), ("attr", 10, "*AttributeProto"),
    ],
}  # fmt: skip
_TYPES = {
    "string": _Field.TYPE_STRING, "int32": _Field.TYPE_INT32, "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64, "bool": _Field.TYPE_BOOL,
}  # fmt: skip


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="c", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        has_choice = name == "AttributeProto"
        if has_choice:
            message.oneof_decl.add(name="value")
        for field_name, number, kind in fields:
            plain = kind.removeprefix("*")
            repeated = _Field.LABEL_REPEATED if kind != plain else _Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=repeated)
            field.type = _TYPES.get(plain, _Field.TYPE_MESSAGE)
            if has_choice and field_name != "name":
                field.oneof_index = 0
            if plain in _MESSAGES:
                field.type_name = f".c.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"c.{name}"))
        for name in _MESSAGES
    }


CLASSES = _classes()


def read_chakra(path: str | Path) -> tuple[Any, dict[int, Any]]:
    """The global metadata of a file, and its nodes by id; every id is there once."""
    content, messages = Path(path).read_bytes(), []
    at = 0
    while at < len(content):
        length, at = _varint(content, at)
        messages.append(content[at : at + length])
        assert len(messages[-1]) == length
        at += length
    metadata = CLASSES["GlobalMetadata"].FromString(messages[0])
    nodes = [CLASSES["Node"].FromString(message) for message in messages[1:]]
    by_id = {node.id: node for node in nodes}
    assert len(by_id) == len(nodes)
    return metadata, by_id


def attributes(message: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {a.name: getattr(a, a.WhichOneof("value")) for a in message.attr}


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
        if content[at - 1] < 0x80:
            return value, at


def assert_acyclic(nodes: dict[int, Any]) -> None:
    """Everything that a node waits for is in the file, and nothing waits for itself."""
    waiting = {number: set(node.data_deps) for number, node in nodes.items()}
    known = set(nodes) | {1}  # the process has no node
    for number, causes in waiting.items():
        assert causes <= known, nodes[number].name
    done = {1}
    while waiting:
        ready = [number for number, causes in waiting.items() if causes <= done]
        assert ready, "nodes wait for each other"
        done.update(ready)
        for number in ready:
            del waiting[number]
