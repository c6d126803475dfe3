"""``python -m opscope.drop_in script.py args...``, or ``-m module args...``: run it switched."""

from __future__ import annotations

import runpy
import sys

from opscope.drop_in import install


def main() -> None:
    """Run the program named on the command line with torch.profiler on opscope."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m opscope.drop_in script.py args... | -m module args...")
        sys.exit(0 if arguments else 2)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
