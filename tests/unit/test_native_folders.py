"""The shape of ``native/``: a folder per stage, and includes point back along the data only."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"
FILES = sorted(
    file
    for file in NATIVE.rglob("*")
    if file.suffix in (".h", ".c", ".cpp") and "tests" not in file.relative_to(NATIVE).parts
)

ARCHITECTURE = (NATIVE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
_, _, TABLE = ARCHITECTURE.partition("## The native core")
MAY_INCLUDE = {
    folder: {"schema", *re.findall(r"`(\w+)`", others)} - {folder}
    for folder, others in re.findall(r"^\| `(\w+)/` \| .* \| (.*) \|$", TABLE, re.MULTILINE)
}
"""What files of a folder may include beside their own; "" is module.cpp, which binds all."""
MAY_INCLUDE[""] = set(MAY_INCLUDE)

# What ``native/schema/generate_schema.py`` writes into the build folder.
GENERATED = {Path("schema/codes.h"), Path("schema/tables.h")}


def folder_of(path):
    return path.parts[0] if len(path.parts) > 1 else ""


def included(file):
    """What a file includes of ours, as it is written there."""
    return [Path(name) for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M)]


def folders_included(files, root):
    """The include graph: by folder, the other folders that its files include."""
    graph = {}
    for file in files:
        folder = folder_of(file.relative_to(root))
        others = {folder_of(path) for path in included(file)} - {folder}
        graph.setdefault(folder, set()).update(others)
    return graph


def test_every_include_names_the_folder_of_a_file_that_is_there():
    named = {(file.name, path) for file in FILES for path in set(included(file)) - GENERATED}
    missing = {(name, str(path)) for name, path in named if not (NATIVE / path).is_file()}
    assert not missing, "say the folder, as in log/record.h"


def test_folders_include_only_what_comes_before_them():
    graph = folders_included(FILES, NATIVE)
    assert graph.keys() == MAY_INCLUDE.keys(), "ARCHITECTURE.md has a row for each folder"
    too_much = {folder: others - MAY_INCLUDE[folder] for folder, others in graph.items()}
    assert not any(too_much.values()), too_much
    TopologicalSorter(MAY_INCLUDE).prepare()  # raises where some include each other


def test_no_two_headers_have_one_name():
    headers = [file.name for file in FILES if file.suffix == ".h" and file.name != "bindings.h"]
    assert sorted(headers) == sorted(set(headers))


def test_no_file_is_longer_than_500_lines():
    lines = {
        str(file.relative_to(NATIVE)): len(file.read_text().splitlines())
        for file in (*FILES, *(NATIVE / "tests").glob("*"))
    }
    assert {name: count for name, count in lines.items() if count > 500} == {}
