"""What is imported when it is first asked for, where the process forks meanwhile."""

from support.processes import run_python

PROGRAM = """
import logging, os, signal, sys, threading  # logging has handlers of forks of its own
import opscope

class Slow:
    inside, go_on = threading.Event(), threading.Event()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "opscope.torch_api.profiler":
            cls.inside.set()
            cls.go_on.wait()

sys.meta_path.insert(0, Slow)
os.register_at_fork(before=Slow.go_on.set)  # what is registered last comes first
thread = threading.Thread(target=lambda: opscope.profile)
thread.start()
Slow.inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    opscope.profile
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


def test_a_child_can_use_what_another_thread_was_importing():
    # Python 3.12 and later warn of a fork beside other threads.
    done = run_python("-W", "ignore", "-c", PROGRAM)
    assert (done.stdout, done.stderr) == ("0\n", "")
