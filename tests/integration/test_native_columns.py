"""Native code makes of a real recording the columns that the schema has, with rows in all."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tests.support.fake_cupti import FakeCupti

from opscope import _native
from opscope.columns.column import TableSchema
from opscope.columns.device_schema import DEVICE_TABLES
from opscope.columns.schema import RECORDED_TABLES
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions

EVERYTHING = RecordingOptions(
    shapes=True,
    outputs=True,
    memory=True,
    overloads=True,
    stack=True,
    modules=True,
    gpu=True,
    asyncio=True,
    process_ids=True,
)


class Doubling(torch.nn.Module):
    """Has a parameter, and TorchScript to call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * 2.0


def program(fake: FakeCupti, module: torch.nn.Module, scripted: Any) -> None:
    """Has something for every table."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        module(torch.ones(2)).sum().backward()
        optimizer.step()
    scripted(torch.ones(2))
    asyncio.run(asyncio.sleep(0))
    fake.launch("kernel")
    fake.launch_graph({fake.instantiate_node(fake.capture_node()): "in_graph"})
    fake.allocate(0x1000, 64)
    fake.overhead(1000)


@pytest.fixture
def delivered(fake: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``_native.decode`` returned of such a program: tables, those of devices among them."""
    windows = []
    decode = _native.decode

    def kept(*arguments: Any) -> Any:
        windows.append(decode(*arguments))
        return windows[-1]

    monkeypatch.setattr(_native, "decode", kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(Doubling())
    recording = Recording(EVERYTHING)
    recording.start()
    program(fake, Doubling(), scripted)
    recording.stop()
    assert len(recording.trace.events)
    # Measuring what recording costs decodes a small one as well.
    window = max(windows, key=lambda decoded: len(decoded["tables"]["events"]["name"]))
    return {**window["tables"], **window["devices"]["tables"]}


def rows_of(data: Any) -> int:
    return len(data[0]) - 1 if isinstance(data, tuple) else len(data)


def dtype_of(data: Any) -> str:
    return f"list[{data[1].dtype}]" if isinstance(data, tuple) else str(data.dtype)


def check(schema: TableSchema, table: Mapping[str, Any]) -> None:
    expected = {column.name: column.dtype for column in schema.delivered}
    assert {name: dtype_of(data) for name, data in table.items()} == expected
    (rows,) = {rows_of(data) for data in table.values()}
    assert rows > 0


def test_every_table_has_its_columns_and_rows_in_all(delivered: dict[str, Any]) -> None:
    schemas = {schema.name: schema for schema in (*RECORDED_TABLES, *DEVICE_TABLES)}
    assert delivered.keys() == schemas.keys()
    for name, schema in schemas.items():
        check(schema, delivered[name])
