"""Before a program runs: could it be recorded?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
from pathlib import Path

from opscope.base.own_python import own_python
from opscope.errors import BridgeError
from opscope.recording.bridge import bridge, torch_build


def check() -> None:
    """Make sure torch is there and the bridge to it is, without importing torch here.

    torch is left for the program to import (see :mod:`opscope.launch.torch_import`), so a bridge
    that may be missing is built by another process.

    Raises:
        BridgeError: no torch, or no bridge and no way to build one.
    """
    if importlib.util.find_spec("torch") is None:
        raise BridgeError(
            "torch is not installed for this Python, so there is nothing to record. Install it "
            "(for example with `pip install torch`), or run opscope with the Python that has it."
        )
    if _some_bridge_is_built():
        return
    command = own_python(str(Path(__file__).parents[1] / "__main__.py"), "build")
    built = subprocess.run(command, stdin=subprocess.DEVNULL)
    if built.returncode != 0:
        # The child has printed the reason to standard error, which it shares with us.
        raise SystemExit(built.returncode)


def _some_bridge_is_built() -> bool:
    """Whether one for this torch version ships with opscope or is in the cache.

    It may still not fit (another C++ ABI, another opscope); then it is built when recording starts.
    """
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return False
    # Of a build from PyPI the package is called 2.11.0, and torch itself 2.11.0+cu130.
    release = version.partition("+")[0]
    if torch_build.ships_for(release):
        return True
    return any(bridge.cache_folder().glob(f"bridge-torch-{release}[+-]*/stamp.json"))
