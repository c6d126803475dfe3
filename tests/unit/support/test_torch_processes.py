"""Programs forked from a process that has torch: what they see and say, and how they end."""

import pytest

from support.processes import run_python
from support.torch_processes import TorchProgram, run_torch

pytest.importorskip("torch")

LOOKS = """
import atexit, os, sys, torch
print(__name__, sys.argv, sys.orig_argv[1:], sys.path[0], os.getcwd(), os.environ["ADDED"])
print(sys.stdin.read(), [name for name in sys.modules if name.startswith("opscope")])
atexit.register(lambda: os.kill(os.getpid(), 9) if sys.argv[1:] else print("at exit"))
sys.exit("the end")
"""


@pytest.mark.parametrize("how", [("-c", LOOKS), ("-m", "looks"), ("looks.py", "dies")])
def test_a_program_is_as_one_of_its_own(tmp_path, how):
    (tmp_path / "looks.py").write_text(LOOKS)
    given = {"cwd": tmp_path, "added": {"ADDED": "yes"}, "input": "said to it"}
    alone, forked = run_python(*how, **given), run_torch(*how, **given)
    assert (forked.stdout, forked.stderr) == (alone.stdout, alone.stderr)
    assert forked.returncode == alone.returncode == (-9 if "dies" in how else 1)


def test_several_run_at_a_time_and_are_spoken_to():
    waits = "import os, signal; print(os.getsid(0) == os.getpid(), flush=True); signal.pause()"
    with TorchProgram("-c", waits) as one, TorchProgram("-c", waits, start_new_session=True) as two:
        assert (one.stdout.readline(), two.stdout.readline()) == ("False\n", "True\n")
        assert one.poll() is None
        one.kill()
        two.send_signal(15)
    assert (one.returncode, two.returncode) == (-9, -15)
