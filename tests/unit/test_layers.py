"""The shape of the package: imports only point forward, and the public names are what they say."""

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import opscope

SOURCE = Path(opscope.errors.__file__).parent

# Where a module stands is the first part of its name below ``opscope``. It may import what stands
# before it, and its own part.
LEAVES = [
    "printable",
    "notice",
    "unfinished",
    "errors",
    "memory_limit",
    "schedule",
    "options",
    "progress",
    "thread_pool",
    "cached_property",
    "launch",
    "_native",
]
PIPELINE = ["trace", "tree", "analysis", "export", "report", "drop_in"]
RECORDER = [
    "recording",
    "annotate",
    "activities",
    "observed_file",
    "observer",
    "cycles",
    "profiler",
]

MAY_IMPORT = {
    **{leaf: {"errors", "printable"} for leaf in LEAVES},
    **{part: {*LEAVES, *PIPELINE[:place]} for place, part in enumerate(PIPELINE)},
    "recording": {*LEAVES, "trace"},
    # Beneath torch's own profiler it also controls the recorder.
    "drop_in": {
        *LEAVES,
        *PIPELINE,
        "recording",
        "annotate",
        "activities",
        "observed_file",
        "observer",
    },
    "annotate": {*LEAVES, "recording"},
    "activities": {*LEAVES, "trace"},
    "observed_file": {*LEAVES, "trace", "export", "recording"},
    "observer": {*LEAVES, "recording", "observed_file"},
    "cycles": {*LEAVES, "recording", "annotate", "observer"},
    "replay": {*LEAVES, "trace", "tree", "analysis", "export", "recording"},
    "profiler": {*LEAVES, *PIPELINE, *RECORDER},
    "__init__": {*LEAVES, *PIPELINE, *RECORDER},
    "cli": {*LEAVES, *PIPELINE, *RECORDER, "replay", "__init__"},
    "__main__": {"cli"},
}

MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(file):
    return file.relative_to(SOURCE).with_suffix("").parts[0]


def executed_nodes(tree):
    """Every node but those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from executed_nodes(node)


def imported_parts(file):
    """The parts of opscope that a file imports, in functions too."""
    for node in executed_nodes(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names = [node.module] if node.module != "opscope" else [
                f"opscope.{alias.name}" for alias in node.names
            ]  # fmt: skip
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "opscope":
                part = rest.partition(".")[0]
                is_module = (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").exists()
                yield part if part and (is_module or part == "_native") else "__init__"


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_forward(file):
    part = part_of(file)
    assert part in MAY_IMPORT, f"say in this test where {part} stands in the flow of data"
    backward = set(imported_parts(file)) - MAY_IMPORT[part] - {part}
    assert not backward, f"{part} must not import {sorted(backward)}"


def test_public_names_are_sorted_and_importable():
    assert opscope.__all__ == sorted(opscope.__all__)
    for name in opscope.__all__:
        assert getattr(opscope, name) is not None


def test_nothing_else_is_public():
    public = {
        name
        for name, value in vars(opscope).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    looked_up_late = {"ProfilerActivity"}
    for_itself = {"annotations", "TYPE_CHECKING", "Any"}
    assert public - for_itself == set(opscope.__all__) - looked_up_late


def test_every_module_can_be_imported_without_torch():
    names = [
        ".".join(("opscope", *file.relative_to(SOURCE).with_suffix("").parts))
        for file in MODULES
        if file.stem not in ("__init__", "__main__")
    ]
    program = f"""
import importlib, sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError(f"{{name}} was imported")
sys.meta_path.insert(0, NoTorch())
for name in {names!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
