"""Where the GIL is off, 3.13t to 3.15t are recorded; of later ones nothing is, and that is said."""

import sys
import sysconfig

import pytest

from opscope.errors import LifecycleError
from opscope.recording import recorder as gil
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from support.processes import run_python


def test_recording_without_the_gil_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    monkeypatch.setattr(gil, "_FIRST_UNKNOWN", sys.version_info[:2])
    recording = Recording(RecordingOptions(stack=True))
    with pytest.raises(LifecycleError, match=r"free-threaded.*PYTHON_GIL=1"):
        recording.start()
    assert not recording.running


PROGRAM = """
import sys
from opscope.recording.recorder import refuse_without_gil
refuse_without_gil()
print(sys._is_gil_enabled())
"""


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has the GIL"
)
@pytest.mark.parametrize("switch", ["", "1", "0"])
def test_a_build_without_it_leaves_it_as_it_is(switch):
    done = run_python(*((f"-Xgil={switch}",) if switch else ()), "-c", PROGRAM)
    if sys.version_info < (3, 16):
        assert done.stdout.split() == [str(switch == "1")], done.stderr
    elif switch == "0":
        assert done.returncode != 0 and "opscope cannot record" in done.stderr
    else:
        assert done.stdout.split() == ["True"], done.stderr
