"""torch.profiler's own names and objects, as thin views over a Trace.

    import opscope.drop_in
    opscope.drop_in.install()      # torch.profiler now records with opscope
    opscope.drop_in.uninstall()

or, without touching the program: ``python -m opscope.drop_in script.py args...``.
"""

from opscope.drop_in.install import install, is_installed, uninstall

__all__ = ["install", "is_installed", "uninstall"]
