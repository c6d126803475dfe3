"""Start of Python processes, isolated from the current folder and environment.

An interpreter started with ``-m`` or ``-c`` looks for modules in the current folder first, and
every interpreter looks in ``PYTHONPATH``. Either may be a folder of another user or of the recorded
program. So opscope's interpreters are isolated (``-I``), begin with this file, and look for modules
only in Python's own folders, opscope's folder and folders of installed packages.

This module imports only the standard library, because keepers and the new interpreter have no more.
"""

import json
import os
import sys

_INSTALLED = ("site-packages", "dist-packages")
_PACKAGE_SUFFIXES = (".dist-info", ".egg-info")


def own_python(file: str, *arguments: str) -> list[str]:
    """Command that runs a file of opscope in a separate process.

    Raises:
        OSError: no Python can be started: it is embedded, or part of a frozen program.
    """
    return [*interpreter(), file, *arguments]


def made_of() -> "tuple[str, ...]":
    """Values that the command is made of: it is another one if they change."""
    return (sys.executable, *map(str, sys.path))


def interpreter() -> list[str]:
    """Beginning of that command; the file's absolute path and arguments follow."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [package, *_installed_folders()]
    # An interpreter started here has -S, and has imported site in _run_file().
    without_site = [] if "site" in sys.modules else ["-S"]
    return [*bare_python(__file__), json.dumps([*without_site, *folders])]


def bare_python(file: str, *arguments: str) -> list[str]:
    """Command that runs a file that needs only the standard library."""
    if not sys.executable or getattr(sys, "frozen", False):  # it would start the program again
        raise FileNotFoundError(2, "this program has no Python executable that can be started")
    bytecode_option = ["-B"] if sys.dont_write_bytecode else []
    return [sys.executable, "-I", "-S", *bytecode_option, os.path.abspath(file), *arguments]


def opscope_command(*words: str) -> list[str]:
    """``python -m opscope WORDS`` for a program of the user: finds modules as in a shell.

    Only this process is not isolated, because its program must not be. ``opscope`` as a module name
    imports nothing from the current folder.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise FileNotFoundError(2, "no Python interpreter of this program can be started")
    return [sys.executable, "-m", "opscope", *words]


def _installed_folders() -> list[str]:
    """Folders of installed packages on the module path, in order.

    Excluded are the current folder, the program's folder and other folders in ``PYTHONPATH``.
    """
    current = _inode_of(os.curdir)
    others = sys.path if getattr(sys.flags, "safe_path", sys.flags.isolated) else sys.path[1:]
    folders = [place for place in others if isinstance(place, str) and os.path.isabs(place)]
    return [place for place in folders if _inode_of(place) != current and _is_installed(place)]


def _inode_of(folder: str) -> "tuple[int, int] | None":
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_installed(folder: str) -> bool:
    if os.path.basename(folder) in _INSTALLED:
        return True
    try:
        return any(name.endswith(_PACKAGE_SUFFIXES) for name in os.listdir(folder))
    except OSError:  # a zip file, or missing
        return False


def _run_file(folders_json: str, file: str) -> None:
    """In the started process: set the module paths, then run ``file`` as the main module."""
    standard, folders = list(sys.path), json.loads(folders_json)
    if folders[0] == "-S":
        folders.pop(0)
    else:
        import site

        site.main()  # makes editable installations work
    sys.path[:] = dict.fromkeys([*standard, *folders, *sys.path])
    sys.argv[:] = sys.argv[2:]
    with open(file, "rb") as code:
        compiled = compile(code.read(), file, "exec", dont_inherit=True)
    exec(compiled, {"__name__": "__main__", "__file__": file, "__builtins__": __builtins__})


if __name__ == "__main__":
    _run_file(sys.argv[1], sys.argv[2])
