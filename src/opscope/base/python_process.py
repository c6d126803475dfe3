"""The only way in which opscope starts a Python process: isolated from the current folder and
environment.

An interpreter that is started with ``-m`` or ``-c`` looks for modules in the current folder first,
and every one looks where ``PYTHONPATH`` says. Either may be a folder of somebody else, or of the
program that is recorded. So an interpreter of opscope's is isolated (``-I``), begins with this very
file, and has three kinds of places for modules: Python's own, the folder of opscope, and folders
of installed packages.

Imports the standard library alone: keepers and the interpreter that begins here have no more.
"""

import json
import os
import sys

_INSTALLED = ("site-packages", "dist-packages")
_SAYS_INSTALLED = (".dist-info", ".egg-info")


def own_python(file: str, *arguments: str) -> list[str]:
    """The command that runs a file of opscope's in a process of its own.

    Raises:
        OSError: no Python can be started from here: it is embedded, or part of a frozen program.
    """
    return [*interpreter(), file, *arguments]


def interpreter() -> list[str]:
    """The beginning of that command; the absolute path of the file and its arguments follow."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    places = [package, *_installed_folders()]
    # One that was itself started here has -S, and has imported site in _begin().
    without_site = [] if "site" in sys.modules else ["-S"]
    return [*bare_python(__file__), json.dumps([*without_site, *places])]


def bare_python(file: str, *arguments: str) -> list[str]:
    """The command that runs a file that needs the standard library alone."""
    if not sys.executable or getattr(sys, "frozen", False):  # that would start the program again
        raise FileNotFoundError(2, "this program has no Python executable that can be started")
    writes_none = ["-B"] if sys.dont_write_bytecode else []
    return [sys.executable, "-I", "-S", *writes_none, os.path.abspath(file), *arguments]


def opscope_command(*words: str) -> list[str]:
    """``python -m opscope WORDS``, for a program of the user's: it finds what it finds in a shell.

    The only process of opscope's that is not isolated, as the program in it must not be. By its
    name opscope imports nothing of the current folder.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise FileNotFoundError(2, "no Python interpreter of this program can be started")
    return [sys.executable, "-m", "opscope", *words]


def _installed_folders() -> list[str]:
    """Folders of packages that this Python uses, in its order: neither the current folder, nor the
    program's, nor what ``PYTHONPATH`` names beside them."""
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
    except OSError:  # it is a zip file, or not there
        return False


def _begin(places: str, file: str) -> None:
    """In the process that was started: set up where modules are, and become ``file``."""
    standard, given = list(sys.path), json.loads(places)
    if given[0] == "-S":
        given.pop(0)
    else:
        import site

        site.main()  # also what makes editable installations work
    sys.path[:] = dict.fromkeys([*standard, *given, *sys.path])
    sys.argv[:] = sys.argv[2:]
    with open(file, "rb") as code:
        compiled = compile(code.read(), file, "exec", dont_inherit=True)
    exec(compiled, {"__name__": "__main__", "__file__": file, "__builtins__": __builtins__})


if __name__ == "__main__":
    _begin(sys.argv[1], sys.argv[2])
