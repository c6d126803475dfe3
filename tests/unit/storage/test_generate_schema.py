"""The C++ side of the schema, as ``native/schema/generate_schema.py`` writes it."""

import subprocess
import sys
from enum import Enum, IntEnum, IntFlag
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from opscope.columns.column import Column, Delivered, TableSchema
from opscope.columns.device_schema import DEVICE_TABLES
from opscope.columns.schema import RECORDED_TABLES

ROOT = Path(__file__).parents[3]
GENERATOR = ROOT / "native" / "schema" / "generate_schema.py"

specification = spec_from_file_location("generate_schema", GENERATOR)
generator = module_from_spec(specification)
specification.loader.exec_module(generator)


class Colour(IntEnum):
    """Numbers."""

    DARK_RED = 0
    Blue = 7


class Letter(str, Enum):
    """Letters."""

    FIRST = "a"


class Wish(IntFlag):
    """Bits."""

    MUCH_MORE = 1 << 16


def lines(text):
    return [line.strip() for line in text.splitlines()]


def test_codes_are_named_as_cpp_names_constants():
    names, numbers = {"kNames": ("one", "two")}, {"kNumbers": (1, 65536)}
    header = lines(generator.codes_header([Colour, Letter, Wish], names, numbers))
    assert "enum Colour : uint8_t {" in header
    assert "kDarkRed = 0," in header
    assert "kBlue = 7," in header
    assert "enum Letter : char {" in header
    assert "kFirst = 'a'," in header
    start = header.index("inline constexpr std::string_view kNames[] = {")
    assert header[start + 1 : start + 4] == ['"one",', '"two",', "};"]
    assert "enum Wish : uint32_t {" in header
    assert "kWishMuchMore = 65536u," in header
    assert "inline constexpr uint32_t kNumbers[] = {1, 65536};" in header


def test_a_table_has_what_the_decoder_delivers_and_nothing_else():
    table = TableSchema(
        "python_calls",
        "a row",
        (
            Column("event", "int32", ""),
            Column("is_new", "bool", ""),
            Column("sizes", "list[int64]", ""),
            Column("id", "uint64", "", delivered=Delivered.SOMETIMES),
            Column("step", "int32", "", delivered=Delivered.NEVER),
        ),
        passing=(Column("time_ns", "int64", ""),),
    )
    header = lines(generator.tables_header({"Tables": [table]}))
    start = header.index("struct PythonCallColumns {")
    assert header[start + 2 : start + 7] == [
        "std::vector<int32_t> event;",
        "FlagColumn is_new;",
        "ListColumn sizes;",
        "std::vector<uint64_t> id;",
        "std::vector<int64_t> time_ns;",
    ]
    visits = [line for line in header if line.startswith('visit("')]
    assert visits == [
        'visit("event", event, false);',
        'visit("is_new", is_new, false);',
        'visit("sizes", sizes, false);',
        'visit("id", id, true);',
        'visit("time_ns", time_ns, false);',
    ]
    assert "static constexpr size_t kColumns = 5;" in header
    assert "PythonCallColumns python_calls;" in header


def test_a_type_that_native_code_has_no_column_for_is_refused():
    table = TableSchema("ledger", "a row", (Column("value", "float16", ""),))
    with pytest.raises(ValueError, match=r"ledger\.value is float16"):
        generator.tables_header({"Tables": [table]})


def run(output):
    # Isolated, and without packages: as where opscope is built, which has no NumPy.
    command = [sys.executable, "-I", "-S", str(GENERATOR), str(ROOT / "src"), str(output)]
    subprocess.run(command, check=True, capture_output=True)


def test_it_needs_nothing_but_python(tmp_path):
    run(tmp_path / "schema")
    header = lines((tmp_path / "schema" / "tables.h").read_text())
    for table in (*RECORDED_TABLES, *DEVICE_TABLES):
        assert f"struct {generator.struct_of(table.name)} {{" in header
    assert "kGcPause = 6," in lines((tmp_path / "schema" / "codes.h").read_text())


def test_headers_that_say_the_same_stay_so_that_nothing_is_compiled_for_them(tmp_path):
    run(tmp_path)
    tables, codes = tmp_path / "tables.h", tmp_path / "codes.h"
    codes.write_text("of another version")
    before = tables.stat().st_mtime_ns
    run(tmp_path)
    assert tables.stat().st_mtime_ns == before
    assert "EventKind" in codes.read_text()
