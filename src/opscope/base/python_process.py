"""The only way in which opscope starts a Python process: isolated from the current folder and
environment.

An interpreter started with ``-m`` or ``-c`` looks for modules in the current folder first, and
every interpreter looks in ``PYTHONPATH``. Either may be a folder of another user or of the recorded
program. So opscope's interpreters are isolated (``-I``), begin with this file, and look for modules
only in Python's own folders, in opscope's folder and in folders of installed packages.

Imports only the standard library: keepers and the interpreter that begins here have no more.
"""

import json
import os
import sys

_INSTALLED = ("site-packages", "dist-packages")
_SAYS_INSTALLED = (".dist-info", ".egg-info")


def own_python(file: str, *arguments: str) -> list[str]:
    """Command that runs a file of opscope in a process of its own.

    Raises:
        OSError: no Python can be started: it is embedded, or part of a frozen program.
    """
    return [*interpreter(), file, *arguments]


def interpreter() -> list[str]:
    """Beginning of that command; the absolute path of the file and its arguments follow."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [package, *_installed_folders()]
    # An interpreter started here has -S, and has imported site in _begin().
    without_site = [] if "site" in sys.modules else ["-S"]
    return [*bare_python(__file__), json.dumps([*without_site, *places])]


def bare_python(file: str, *arguments: str) -> list[str]:
    """Command that runs a file that needs only the standard library."""
    if not sys.executable or getattr(sys, "frozen", False):  # it would start the program again
        raise FileNotFoundError(2, "this program has no Python executable that can be started")
    writes_none = ["-B"] if sys.dont_write_bytecode else []
    return [sys.executable, "-I", "-S", *writes_none, os.path.abspath(file), *arguments]


def opscope_command(*words: str) -> list[str]:
    """``python -m opscope WORDS``, for a program of the user: finds modules as in a shell.

    The only process that opscope starts without isolation, because its program must not be
    isolated. Run by its name, opscope imports nothing from the current folder.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise FileNotFoundError(2, "no Python interpreter of this program can be started")
    return [sys.executable, "-m", "opscope", *words]


def _installed_folders() -> list[str]:
    """Folders of installed packages that this Python uses, in order; without the current folder,
    the program's and those of ``PYTHONPATH`` beside them."""
    current = _same_as(os.curdir)
    others = sys.path if getattr(sys.flags, "safe_path", sys.flags.isolated) else sys.path[1:]
    found = [place for place in others if isinstance(place, str) and os.path.isabs(place)]
    return [place for place in found if _same_as(place) != current and _is_installed(place)]


def _same_as(folder: str) -> "tuple[int, int] | None":
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_installed(folder: str) -> bool:
    if os.path.basename(folder) in _INSTALLED:
        return True
    try:
        return any(name.endswith(_SAYS_INSTALLED) for name in os.listdir(folder))
    except OSError:  # a zip file, or missing
        return False


def _begin(places: str, file: str) -> None:
    """In the started process: set the module paths, then run ``file`` as the main module."""
    standard, given = list(sys.path), json.loads(places)
    if given[0] == "-S":
        given.pop(0)
    else:
        import site

        site.main()  # makes editable installations work
    sys.path[:] = dict.fromkeys([*standard, *given, *sys.path])
    sys.argv[:] = sys.argv[2:]
    with open(file, "rb") as code:
        compiled = compile(code.read(), file, "exec", dont_inherit=True)
    exec(compiled, {"__name__": "__main__", "__file__": file, "__builtins__": __builtins__})


if __name__ == "__main__":
    _begin(sys.argv[1], sys.argv[2])
