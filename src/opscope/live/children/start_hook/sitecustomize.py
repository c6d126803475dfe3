"""Python's ``site`` imports this at start; it then imports the user's ``sitecustomize``, if any."""

import os
import sys


def _begin() -> None:
    try:
        from opscope_children import begin_in_new_process  # type: ignore[import-not-found]

        begin_in_new_process()
    except Exception:  # the program must start as without opscope
        pass


def _make_way() -> None:
    """Let Python import the next ``sitecustomize``; ImportError if there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        if own is not None:
            sys.modules["sitecustomize"] = own
        raise


if __name__ == "sitecustomize":
    _begin()
    _make_way()
