"""The shape of the package: imports only point forward, and the public names are what they say."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import opscope
from support.import_graph import circles, imports_in, modules_in

SOURCE = Path(opscope.errors.__file__).parent

# A module is in the part that its name begins with. It may import its own part, and those that
# stand before it in the flow of data. Imports in functions and for type checkers count as well.
LEAVES = [
    "printable",
    "notice",
    "unfinished",
    "errors",
    "memory_limit",
    "quantities",
    "reused_memory",
    "child_process",
    "schedule",
    "progress",
    "scratch",
    "announced_steps",
    "optimizer_steps",
    "own_file",
    "own_python",
    "own_thread",
    "short_turns",
    "thread_pool",
    "cached_property",
    "running_process",
    "experimental_switches",
    "activity_configs",
    "launch",
    "leftover",
    "_native",
]
ANALYSES = [
    "trace",
    "tree",
    "analysis",
    "analysis.findings",
    "analysis.diff",
    "rollup",
    "export",
    "job",
    "report",
]
DROP_IN = [
    "drop_in.event",
    "drop_in.event_list",
    "drop_in.event_tree",
    "drop_in.backend",
    "drop_in.daemon",
    "drop_in",
]
PIPELINE = [*ANALYSES, *DROP_IN]
RECORDER = [
    "recording",
    "annotate",
    "activities",
    "settings",
    "observed_file",
    "observer",
    "cycles",
    "profile_recording",
    "profiler",
]
BENEATH_TORCH = {"recording", "annotate", "activities", "settings", "observed_file", "observer"}

MAY_IMPORT = {
    **{leaf: {"errors", "printable", "_native"} for leaf in LEAVES},
    "launch": {"errors", "printable", "_native", "leftover"},
    "leftover": {"own_file"},
    **{part: {*LEAVES, *PIPELINE[:place]} for place, part in enumerate(PIPELINE)},
    "recording": {*LEAVES, "trace"},
    "drop_in.event_tree": {*LEAVES, *ANALYSES, "recording"},
    "drop_in.backend": {*LEAVES, *PIPELINE[:-1], *BENEATH_TORCH},
    "drop_in.daemon": {*LEAVES, *ANALYSES, "recording", "activities", "settings", "flight"},
    "drop_in": {*LEAVES, *PIPELINE, *BENEATH_TORCH},
    "annotate": {*LEAVES, "recording"},
    "activities": {*LEAVES, "trace", "recording"},
    "settings": {*LEAVES, "recording", "activities"},
    "observed_file": {*LEAVES, "trace", "export", "recording"},
    "observer": {*LEAVES, "recording", "observed_file"},
    "cycles": {*LEAVES, "recording", "annotate", "observer"},
    "flight": {*LEAVES, "trace", "recording", "activities", "settings"},
    "triggers": {*LEAVES, "flight"},
    "control": {*LEAVES, "trace", "recording", "activities", "settings", "flight"},
    "warm_steps": {*LEAVES, "profile_recording"},
    "children": {
        *LEAVES,
        "trace",
        "recording",
        "profile_recording",
        "warm_steps",
        "drop_in",
        "flight",
    },
    "replay": {*LEAVES, "trace", "tree", "analysis", "export", "recording"},
    "profile_recording": {*LEAVES, "trace", *RECORDER},
    "profiler": {*LEAVES, *PIPELINE, *RECORDER},
    "__init__": {*LEAVES, *PIPELINE, *RECORDER, "flight", "control"},
    "cli": {
        *LEAVES,
        *PIPELINE,
        *RECORDER,
        "warm_steps",
        "flight",
        "control",
        "children",
        "replay",
        "__init__",
    },
    "__main__": {"cli"},
}

METHODS_OF_TRACE = {
    ("trace.trace", stage)
    for stage in (
        "trace.save_apart",
        "trace.sql",
        "trace.interop",
        "trace.summary_html",
        "tree.node",
        "analysis.account.account",
        "analysis.account.find",
        "analysis.compiled_code",
        "analysis.critical_path.path",
        "analysis.critical_path.replay",
        "analysis.device_use.device_use",
        "analysis.memory.peak",
        "analysis.period",
        "analysis.findings.find",
        "analysis.findings.finding",
        "analysis.critical_path.what_if",
        "analysis.roofline.peaks",
        "analysis.roofline.roofline",
        "export.formats",
    )
} | {("trace.load", "recording.recovered"), ("trace.save_apart", "rollup.write")}
"""The only imports that point backward: what a method of Trace hands over to, and its results;
reading what a recorder left unfinished; and adding up what was saved as one process of several."""

MODULES = modules_in(SOURCE)
IMPORTS = imports_in(SOURCE, compiled=["_native"])
ARCHITECTURE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def part_of(module):
    whole = [part for part in MAY_IMPORT if f"{module}.".startswith(f"{part}.")]
    assert whole, f"say in this test where {module} stands in the flow of data"
    return max(whole, key=len)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_forward(module):
    part = part_of(module)
    backward = {
        target
        for source, target, _ in IMPORTS
        if source == module and (source, target) not in METHODS_OF_TRACE
        if part_of(target) not in {part, *MAY_IMPORT[part]}
    }
    assert not backward, f"{part} must not import {sorted(backward)}"


def test_no_module_imports_itself_over_others():
    assert circles({(i.source, i.target) for i in IMPORTS} - METHODS_OF_TRACE) == []


def test_methods_of_a_trace_import_when_they_are_called():
    at_once = {(i.source, i.target): i.at_once for i in IMPORTS}
    assert {method: at_once.get(method) for method in METHODS_OF_TRACE} == dict.fromkeys(
        METHODS_OF_TRACE, False
    )


def test_every_class_has_a_name_of_its_own():
    names = Counter(
        node.name
        for file in MODULES.values()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def folder_of(module):
    """The first folder of a module's name; none for those beside the folders."""
    return module.partition(".")[0] if "." in module or (SOURCE / module).is_dir() else ""


def test_the_architecture_says_which_folder_imports_which():
    rows = re.findall(r"^\| `(\w+)/` \| .* \| (.*) \|$", ARCHITECTURE, re.MULTILINE)
    said = {folder: set(re.findall(r"`(\w+)`", others)) for folder, others in rows}
    true = {folder_of(module): set() for module in MODULES}
    for source, target, _ in IMPORTS:
        if (source, target) not in METHODS_OF_TRACE:
            true[folder_of(source)].add(folder_of(target))
    true = {folder: others - {folder, ""} for folder, others in true.items() if folder}
    assert {folder: said.get(folder) for folder in true} == true


def test_the_architecture_shows_every_folder():
    folders = {file.parent.name for file in MODULES.values()} - {SOURCE.name}
    assert sorted(folder for folder in folders if f"`{folder}/`" not in ARCHITECTURE) == []


def test_public_names_are_sorted_and_importable():
    assert opscope.__all__ == sorted(opscope.__all__)
    for name in opscope.__all__:
        assert getattr(opscope, name) is not None


@pytest.mark.parametrize("name", ["drop_in.install", "triggers.SlowStep"])
def test_importing_opscope_is_enough_for_what_is_named_after_it(name):
    program = f"import opscope; assert callable(opscope.{name})"

    assert "opscope" in imported_by(program)


def test_nothing_else_is_public():
    known = {**vars(opscope), **{name: getattr(opscope, name) for name in dir(opscope)}}
    public = {
        name
        for name, value in known.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    for_itself = {"annotations", "TYPE_CHECKING", "Any"}
    assert public - for_itself == set(opscope.__all__)


def imported_by(program):
    """The packages that a program in an interpreter of its own has imported when it ends."""
    program += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_importing_opscope_imports_no_other_package():
    assert imported_by("import opscope").isdisjoint({"numpy", "pyarrow", "duckdb", "rich", "torch"})


def test_help_is_printed_without_any_other_package():
    help_of_all = "from opscope.cli import main; main(['--help'])"
    assert imported_by(help_of_all).isdisjoint({"numpy", "pyarrow", "duckdb", "rich", "torch"})
    help_of_run = "from opscope.cli import main; main(['run', '--help'])"
    assert imported_by(help_of_run).isdisjoint({"pyarrow", "duckdb", "torch"})


def test_every_module_can_be_imported_without_torch():
    names = [
        f"opscope.{module}"
        for module, file in MODULES.items()
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
