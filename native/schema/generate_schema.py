"""Writes the schema as C++: ``schema/codes.h`` and ``schema/tables.h``.

CMake runs this before it compiles anything (``schema.cmake``). It needs the standard library alone:
the schema's modules import nothing else, and opscope's own ``__init__`` is passed over.

    python generate_schema.py SOURCE_FOLDER OUTPUT_FOLDER
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, IntFlag
from importlib import import_module
from pathlib import Path
from typing import Any

CPP_TYPES = {
    **{f"int{bits}": f"std::vector<int{bits}_t>" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"std::vector<uint{bits}_t>" for bits in (8, 16, 32, 64)},
    "bool": "FlagColumn",
    "list[int64]": "ListColumn",
}
"""What holds a column in C++, by its dtype; see table.h."""


def codes_header(
    enums: Iterable[type[Enum]],
    names: Mapping[str, Sequence[str]],
    numbers: Mapping[str, Sequence[int]],
) -> str:
    """Enumerations, and tables of names and numbers (by what to call each in C++)."""
    return _header(
        "columns/codes.py",
        ["<cstdint>", "<string_view>"],
        [
            "// Each is named EventKind::kOperator, and compares with the numbers in columns.",
            *(line for enum in enums for line in _enum(enum)),
            *(line for name, texts in names.items() for line in _names(name, texts)),
            *(line for name, values in numbers.items() for line in _numbers(name, values)),
        ],
    )


def tables_header(groups: Mapping[str, Sequence[Any]]) -> str:
    """One struct of columns per table, and per group of tables one that has them all."""
    tables = [table for group in groups.values() for table in group]
    return _header(
        "columns/schema.py",
        ["<cstddef>", "<cstdint>", "<vector>", "", '"schema/table.h"'],
        [
            *(line for table in tables for line in _table(table)),
            *(line for name, group in groups.items() for line in _group(name, group)),
        ],
    )


def struct_of(table: str) -> str:
    """``PythonCallColumns`` of ``python_calls``."""
    return _camel_case(table.removesuffix("s")) + "Columns"


def _header(source: str, includes: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join(
        [
            f"// Made from src/opscope/{source} by generate_schema.py: change it there.",
            "#pragma once",
            "",
            *(f"#include {include}" if include else "" for include in includes),
            "",
            "namespace opscope {",
            "",
            *lines,
            "}  // namespace opscope",
            "",
        ]
    )


def _enum(enum: type[Enum]) -> Iterator[str]:
    if issubclass(enum, IntFlag):
        yield from _flags(enum)
        return
    is_text = issubclass(enum, str)
    yield f"namespace codes_of_{enum.__name__} {{"
    yield f"enum {enum.__name__} : {'char' if is_text else 'uint8_t'} {{"
    for member in enum:
        value = f"'{member.value}'" if is_text else str(int(member.value))
        yield f"  k{_camel_case(member.name)} = {value},"
    yield "};"
    yield "}"
    yield f"using codes_of_{enum.__name__}::{enum.__name__};"
    yield ""


def _names(name: str, texts: Sequence[str]) -> Iterator[str]:
    yield f"inline constexpr std::string_view {name}[] = {{"
    yield from (f'  "{text}",' for text in texts)
    yield "};"
    yield ""


def _flags(enum: type[IntFlag]) -> Iterator[str]:
    """Bits that are or-ed together, so plain numbers: ``kWantOperators``."""
    yield f"enum {enum.__name__} : uint32_t {{"
    for member in enum:
        yield f"  k{enum.__name__}{_camel_case(str(member.name))} = {int(member)}u,"
    yield "};"
    yield ""


def _numbers(name: str, values: Sequence[int]) -> Iterator[str]:
    yield f"inline constexpr uint32_t {name}[] = {{{', '.join(map(str, values))}}};"
    yield ""


def _table(table: Any) -> Iterator[str]:
    columns = [(column.name, _cpp_type(table.name, column)) for column in table.delivered]
    yield f"// {table.name}: {table.row}."
    yield f"struct {struct_of(table.name)} {{"
    yield f'  static constexpr const char* kTable = "{table.name}";'
    yield from (f"  {kind} {name};" for name, kind in columns)
    yield ""
    yield "  // Calls visit(name, column, whether all rows may lack it) for each."
    yield "  template <typename Visit>"
    yield "  void for_each_column(Visit&& visit) {"
    for column in table.delivered:
        is_optional = str(column.delivered.name == "SOMETIMES").lower()
        yield f'    visit("{column.name}", {column.name}, {is_optional});'
    yield "  }"
    yield f"  static constexpr size_t kColumns = {len(columns)};"
    yield "};"
    yield ""


def _group(name: str, tables: Sequence[Any]) -> Iterator[str]:
    yield f"struct {name} {{"
    yield from (f"  {struct_of(table.name)} {table.name};" for table in tables)
    yield ""
    yield "  template <typename Visit>"
    yield "  void for_each_table(Visit&& visit) {"
    yield from (f"    visit({table.name});" for table in tables)
    yield "  }"
    yield "};"
    yield ""


def _cpp_type(table: str, column: Any) -> str:
    if column.dtype not in CPP_TYPES:
        raise ValueError(
            f"{table}.{column.name} is {column.dtype}, which native code has no columns of. Add it "
            "to CPP_TYPES in native/schema/generate_schema.py, and to native/table.h."
        )
    return CPP_TYPES[column.dtype]


def _camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))


def _write(path: Path, text: str) -> None:
    """Write ``text`` unless the file already has it, to avoid recompilation."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(source: Path, output: Path) -> None:
    """Write both headers into ``output``; ``source`` is the folder that holds ``opscope``."""
    sys.dont_write_bytecode = True
    package = types.ModuleType("opscope")
    package.__path__ = [str(source / "opscope")]
    sys.modules["opscope"] = package
    codes = import_module("opscope.columns.codes")
    causes = import_module("opscope.columns.causes")
    schema = import_module("opscope.columns.schema")
    device_schema = import_module("opscope.columns.device_schema")
    enums = [
        value
        for value in vars(codes).values()
        if isinstance(value, type)
        and issubclass(value, Enum)
        and value.__module__ == codes.__name__
    ]
    enums.append(causes.Cause)
    groups = {
        "RecordedTables": schema.RECORDED_TABLES,
        "DeviceTables": device_schema.DEVICE_TABLES,
        "SampledTables": schema.SAMPLED_TABLES,
    }
    output.mkdir(parents=True, exist_ok=True)
    names = {
        "kDeviceNames": codes.DEVICE_NAMES,
        "kGpuCategories": codes.GPU_CATEGORIES,
        "kEventCategories": [codes.CATEGORIES[kind] for kind in sorted(codes.EventKind)],
    }
    numbers = {
        "kAllCauses": [int(cause) for cause in causes.Cause],
        "kWaits": [int(cause) for cause in causes.WAITS],
        "kWantedBy": [int(codes.WANTED_BY[kind]) for kind in sorted(codes.EventKind)],
    }
    _write(output / "codes.h", codes_header(enums, names, numbers))
    _write(output / "tables.h", tables_header(groups))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
