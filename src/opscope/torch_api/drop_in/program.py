"""``python -m opscope.drop_in script.py args...``: run a program as Python does, but switched.

Also with ``-m module``, ``-c code`` and ``-``.
"""

from __future__ import annotations

import sys

from opscope.base.notice import notice
from opscope.errors import BridgeError
from opscope.launch.hidden_modules import hide_modules, with_own_modules
from opscope.launch.kineto_switch import hide_from_kineto
from opscope.launch.program import Program, ProgramNotFoundError, check, run
from opscope.launch.torch_import import when_torch_is_imported
from opscope.torch_api.drop_in.install import install_and_answer

USAGE = """\
usage: python -m opscope.drop_in SCRIPT args...
       python -m opscope.drop_in -m MODULE args...
       python -m opscope.drop_in -c CODE args...
       python -m opscope.drop_in - args...

Runs a program as python itself would, with torch.profiler recording through opscope."""


def main() -> None:
    """Run the program named on the command line with torch.profiler on opscope."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return
    option = arguments.pop(0) if arguments[:1] in (["-m"], ["-c"]) else ""
    if not arguments:
        sys.exit(_refuse(f"{USAGE}\n\nName the program to run."))
    target, *own = arguments
    program = Program(target, tuple(own), is_module=option == "-m", is_code=option == "-c")
    try:
        check(program)
        hide_from_kineto()
        when_torch_is_imported(with_own_modules(_switch))
        hide_modules()
        run(program)
    except ProgramNotFoundError as error:
        sys.exit(_refuse(str(error)))


def _switch() -> None:
    try:
        install_and_answer()
    except BridgeError as error:
        notice(f"{error} torch.profiler was not replaced.")


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return ProgramNotFoundError.exit_code
