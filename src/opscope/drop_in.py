"""torch.profiler's own names and objects, as thin views over a Trace.

    import opscope.drop_in
    opscope.drop_in.install()      # torch.profiler now records with opscope
    opscope.drop_in.uninstall()

or, without touching the program: ``python -m opscope.drop_in script.py args...``.
"""

from opscope.torch_api.drop_in.install import install, is_installed, uninstall
from opscope.torch_api.drop_in.program import main as _main

__all__ = ["install", "is_installed", "uninstall"]

if __name__ == "__main__":
    _main()
