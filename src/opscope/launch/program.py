"""Run a program as ``python`` itself would.

``sys.argv``, ``sys.path[0]``, ``__main__`` with its attributes, the exit code and tracebacks are
the same as without opscope: classes pickle, and spawned processes find the file to import.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import io
import linecache
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType
from typing import Any

from opscope.errors import UsageError

_replaced: list[ModuleType] = []
"""opscope's own ``__main__``; kept because Python 3.10 crashes at exit without it."""


class ProgramNotFoundError(UsageError):
    """The script or module to run does not exist."""


@dataclass(frozen=True)
class Program:
    """The program to run.

    ``target`` is the path of a script (or of a folder or zip file with a ``__main__.py``), the
    dotted name of a module, or code; ``-`` is a script from standard input.
    """

    target: str
    arguments: tuple[str, ...] = ()  # ``sys.argv[1:]`` of the program
    is_module: bool = False  # as after ``python -m``
    is_code: bool = False  # as after ``python -c``

    @property
    def is_input(self) -> bool:
        """Whether the script comes through standard input."""
        return self.target == "-" and not (self.is_module or self.is_code)

    @property
    def option(self) -> str:
        """The option before the target on a command line, if any."""
        return "-m" if self.is_module else "-c" if self.is_code else ""

    @property
    def short_name(self) -> str:
        """A name for the program that fits in a file name."""
        if self.is_module:
            return self.target
        if self.is_code or self.is_input:
            return "code" if self.is_code else "stdin"
        return os.path.splitext(os.path.basename(os.path.abspath(self.target)))[0]


def check(program: Program) -> None:
    """Raise early if the program cannot run, before anything is set up.

    Raises:
        ProgramNotFoundError: the script or the module's top-level package does not exist.
        UsageError: there is no current folder.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"The current folder cannot be used ({error.strerror}), so the program was not "
            "started. It may have been deleted: change to an existing folder."
        ) from error
    if program.is_module:
        if not _package_exists(program.target.partition(".")[0]):
            raise _module_not_found(program.target)
    elif program.is_input:
        if sys.stdin is None:
            raise ProgramNotFoundError(
                "Standard input is closed, but `-` reads the program from it. Name a script, "
                "or redirect one: opscope run - < train.py."
            )
    elif not program.is_code and not os.path.exists(program.target):
        raise ProgramNotFoundError(
            f"There is no script {program.target!r} (looked in {os.getcwd()}). Check the path; to "
            "run a module by its name, put -m before it."
        )


def _package_exists(name: str) -> bool:
    # The current folder is not on sys.path yet.
    if importlib.machinery.PathFinder.find_spec(name, [os.getcwd()]) is not None:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # "" and modules without a file, such as __main__
        return False


def run(program: Program) -> None:
    """Run the program to its end in this process; returns or raises as the program does.

    An uncaught exception propagates, so that Python ends the process as without opscope; the
    printed traceback omits the frames above the program.

    Raises:
        ProgramNotFoundError: a submodule does not exist, or has no code to run.
    """
    try:
        code, namespace = _prepare(program)
        execute(code, namespace)
    except (ProgramNotFoundError, SystemExit):
        raise
    except BaseException:
        _hide_frames_above_the_program()
        raise


def execute(code: CodeType, namespace: dict[str, Any]) -> None:
    """Run code of the program; its Python calls are recorded from here on."""
    exec(code, namespace)


async def execute_awaiting(code: CodeType, namespace: dict[str, Any]) -> None:
    """:func:`execute` for code that awaits outside of functions."""
    await eval(code, namespace)


def execute_module(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """:func:`execute` for a module that the program imports, by its loader's function."""
    execute(module)


def _prepare(program: Program) -> tuple[CodeType, dict[str, Any]]:
    """Set ``sys.argv``, ``sys.path[0]`` and ``__main__``; returns code and namespace."""
    main = ModuleType("__main__")
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    vars(main)["__builtins__"] = builtins
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    sys.argv = [program.option or program.target, *program.arguments]
    if program.is_module:
        _set_first_import_folder(os.getcwd())
        code, attributes = _load_module(*_find_module(program.target))
        sys.argv[0] = attributes["__file__"]
    elif program.is_code or program.is_input:
        _set_first_import_folder("")
        code, attributes = _load_text(program)
    elif pkgutil.get_importer(program.target) is not None:  # a folder or a zip file
        container = os.path.join(os.getcwd(), program.target)
        _set_first_import_folder(container)
        code, attributes = _load_module(*_find_main_inside(container))
    else:
        _set_first_import_folder(os.path.dirname(os.path.realpath(program.target)))
        code, attributes = _load_script(os.path.join(os.getcwd(), program.target))
    if sys.version_info >= (3, 15):
        attributes.pop("__cached__", None)
    vars(main).update(attributes)
    return code, vars(main)


def _set_first_import_folder(folder: str) -> None:
    # With -P and -I, Python does not put the folder of the program on sys.path.
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = folder


def _load_text(program: Program) -> tuple[CodeType, dict[str, Any]]:
    """Code and ``__main__`` attributes of a program from the command line or standard input."""
    attributes: dict[str, Any] = {"__loader__": importlib.machinery.BuiltinImporter}
    content: str | bytes = program.target
    name = "<stdin>" if program.is_input else "<string>"
    if program.is_input:
        content = sys.stdin.buffer.read()
        attributes |= {"__file__": name, "__cached__": None}
    code = compile(content, name, "exec", dont_inherit=True)
    if isinstance(content, str):
        _keep_for_tracebacks(code, content)
    return code, attributes


def _keep_for_tracebacks(code: CodeType, text: str) -> None:
    """Keep lines of ``-c``, which tracebacks show from Python 3.13 on."""
    keep = getattr(linecache, "_register_code", None)
    if keep is not None:
        by_code = hasattr(linecache, "_interactive_cache")  # by the file's name in the first 3.13s
        keep(code if by_code else code.co_filename, text, code.co_filename)


def _load_script(path: str) -> tuple[CodeType, dict[str, Any]]:
    loader: Any = importlib.machinery.SourcelessFileLoader
    with io.open_code(path) as file:
        content = file.read()  # once: a pipe, such as /dev/stdin or <(...), cannot be read again
    code = pkgutil.read_code(io.BytesIO(content))
    if code is None:
        loader = importlib.machinery.SourceFileLoader
        code = compile(content, path, "exec", dont_inherit=True)
    return code, {"__file__": path, "__cached__": None, "__loader__": loader("__main__", path)}


def _load_module(
    spec: importlib.machinery.ModuleSpec, code: CodeType
) -> tuple[CodeType, dict[str, Any]]:
    return code, {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": spec.parent,
        "__spec__": spec,
    }


def _find_main_inside(container: str) -> tuple[importlib.machinery.ModuleSpec, CodeType]:
    spec = importlib.machinery.PathFinder.find_spec("__main__", [container])
    code = _code_of(spec)
    if spec is None or code is None:
        raise ProgramNotFoundError(f"{container!r} has no __main__.py. Name the script inside it.")
    return spec, code


def _find_module(name: str) -> tuple[importlib.machinery.ModuleSpec, CodeType]:
    _import_package(name.rpartition(".")[0], name)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError):  # a "package" that is a module
        raise _module_not_found(name) from None
    if spec is not None and spec.submodule_search_locations is not None:
        return _find_module(f"{name}.__main__")
    code = _code_of(spec)
    if spec is None or code is None:
        raise _module_not_found(name)
    return spec, code


def _import_package(package: str, module: str) -> None:
    """Import ``package``, if any; errors of its code propagate."""
    if not package:
        return
    try:
        importlib.import_module(package)
    except ImportError as error:
        # The package or an outer one is missing, not a module that it imports.
        if error.name is not None and f"{package}.".startswith(f"{error.name}."):
            raise _module_not_found(module) from None
        raise


def _code_of(spec: importlib.machinery.ModuleSpec | None) -> CodeType | None:
    get_code = getattr(spec.loader, "get_code", None) if spec is not None else None
    return get_code(spec.name) if get_code is not None and spec is not None else None


def _module_not_found(name: str) -> ProgramNotFoundError:
    if name.endswith(".__main__"):
        package = name.removesuffix(".__main__")
        return ProgramNotFoundError(
            f"{package!r} is a package without a __main__ module, so it cannot be run. Name one of "
            "its modules."
        )
    hint = f" Did you mean the module {name[:-3]!r}, or the script without -m?"
    return ProgramNotFoundError(
        f"There is no module {name!r}."
        + (hint if name.endswith(".py") else " Check its name, and that it is installed here.")
    )


def _hide_frames_above_the_program() -> None:
    """Omit opscope's frames when the exception is printed, also by the program's hook."""
    original_hook = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        sys.excepthook = original_hook
        program_traceback = _program_part(traceback)
        sys.last_traceback = program_traceback
        original_hook(kind, error.with_traceback(program_traceback), program_traceback)

    sys.excepthook = excepthook


def _program_part(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code is not run.__code__:
        traceback = traceback.tb_next
    machinery = (__file__, importlib.__file__, importlib.util.__file__, pkgutil.__file__)
    while traceback is not None and (
        traceback.tb_frame.f_code.co_filename.startswith("<frozen importlib")
        or traceback.tb_frame.f_code.co_filename in machinery
    ):
        traceback = traceback.tb_next
    return traceback
