"""The shape of the package: imports only point forward, and the public names are what they say."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import opscope
from support.processes import run_python


def modules_in(package: Path) -> dict[str, Path]:
    """Files by module name below the package; that of a folder is its ``__init__``."""
    return {_module_name(file.relative_to(package)): file for file in package.rglob("*.py")}


def imports_in(package: Path, compiled: Iterable[str] = ()) -> set[tuple[str, str]]:
    """Every import of one module of ``package`` by another; names are those below the package.

    Args:
        package: its folder.
        compiled: modules that have no source.
    """
    modules = modules_in(package)
    known = {*modules, *compiled}
    return {
        (name, target)
        for name, file in modules.items()
        for node in ast.walk(ast.parse(file.read_text()))
        for target in _names(node, package.name, known)
        if target != name
    }


def _module_name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _names(node: ast.AST, package: str, known: set[str]) -> Iterator[str]:
    """Modules that a statement imports. A name that is no module is taken from one."""
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import in line {node.lineno}"
        asked = [(f"{node.module}.{alias.name}", node.module or "") for alias in node.names]
    elif isinstance(node, ast.Import):
        asked = [(alias.name, alias.name) for alias in node.names]
    else:
        return
    for whole, module in asked:
        for name in (whole, module):
            top, _, rest = name.partition(".")
            if top == package and (rest or "__init__") in known:
                yield rest or "__init__"
                break


SOURCE = Path(opscope.errors.__file__).parent

MODULES = modules_in(SOURCE)
ARCHITECTURE = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| `(\w+)/` \| .* \| (.*) \|$", ARCHITECTURE, re.MULTILINE)
FLOORS = {room: int(floor) for floor, room, _ in ROWS}
SAID = {room: set(re.findall(r"`(\w+)`", others)) for _, room, others in ROWS}
IN_FRONT = {"__init__", "__main__", "drop_in", "triggers"}
"""Names that users write; no room imports them but the command, which is told of the version."""
HOSTS = ("transformers", "lightning", "ignite", "opentelemetry")
OF_A_HOST = {f"integrations.{host}" for host in HOSTS}
"""What derives from classes of other packages, and so imports them."""


def room_of(module):
    room = module.partition(".")[0]
    return "base" if room in ("errors", "_native") else room


@functools.cache
def imports():
    """Not read where other tests of this process alone run."""
    return imports_in(SOURCE, compiled=["_native"])


def test_every_file_is_in_a_room_of_the_table():
    assert {room_of(module) for module in MODULES} - IN_FRONT == {*FLOORS}


def test_imports_go_down():
    wrong = []
    for source, target in imports():
        room, other = room_of(source), room_of(target)
        if room in IN_FRONT or room == other:
            continue
        if target == "__init__":
            wrong += [] if room == "cli" else [(source, target)]
        elif FLOORS.get(other, 99) >= FLOORS[room]:
            wrong.append((source, target))
    assert not wrong, "each imports what is above it, or beside"


def test_the_table_says_which_room_imports_which():
    true = {room: set() for room in FLOORS}
    for source, target in imports():
        if room_of(source) not in IN_FRONT and room_of(target) not in IN_FRONT:
            true[room_of(source)].add(room_of(target))
    assert {room: others - {room} for room, others in true.items()} == SAID


def test_no_module_imports_itself_over_others():
    following: dict[str, set[str]] = {}
    for source, target in imports():
        following.setdefault(source, set()).add(target)
    TopologicalSorter(following).prepare()  # raises where some import each other


def test_every_class_has_a_name_of_its_own():
    names = Counter(
        node.name
        for file in MODULES.values()
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_architecture_shows_every_folder():
    folders = {file.parent.name for file in MODULES.values()} - {SOURCE.name}
    assert sorted(folder for folder in folders if f"`{folder}/`" not in ARCHITECTURE) == []


def test_tests_that_the_architecture_names_exist():
    root = SOURCE.parents[1]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ARCHITECTURE)
    assert len(named) > 20
    missing = [name for file, name in named if f"def {name}(" not in (root / file).read_text()]
    assert missing == []


def test_public_names_are_sorted_and_importable():
    assert opscope.__all__ == sorted(opscope.__all__)
    for name in opscope.__all__:
        assert getattr(opscope, name) is not None


def test_importing_opscope_imports_no_other_package_and_is_enough_for_what_is_named_after_it():
    others = {"numpy", "pyarrow", "duckdb", "rich", "torch"}
    assert imported_by("import opscope").isdisjoint(others)
    named = "import opscope; assert callable(opscope.drop_in.install)"
    assert "opscope" in imported_by(f"{named}; assert callable(opscope.triggers.SlowStep)")


def test_nothing_else_is_public():
    known = {**vars(opscope), **{name: getattr(opscope, name) for name in dir(opscope)}}
    public = {
        name
        for name, value in known.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    for_itself = {"annotations", "TYPE_CHECKING", "Any", "load_ipython_extension"}
    assert public - for_itself == set(opscope.__all__)


def imported_by(program):
    """The packages that a program in an interpreter of its own has imported when it ends."""
    program += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_help_is_printed_without_any_other_package():
    help_of_all = "from opscope.cli import main; main(['--help'])"
    assert imported_by(help_of_all).isdisjoint({"numpy", "pyarrow", "duckdb", "rich", "torch"})
    help_of_run = "from opscope.cli import main; main(['run', '--help'])"
    assert imported_by(help_of_run).isdisjoint({"pyarrow", "duckdb", "torch"})


def test_every_module_can_be_imported_without_torch():
    names = [
        f"opscope.{module}"
        for module, file in MODULES.items()
        if file.stem not in ("__init__", "__main__") and module not in OF_A_HOST
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
    done = run_python("-c", program)
    assert done.stderr == ""
