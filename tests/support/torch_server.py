"""``python torch_server.py SOCKET``: import torch once, and fork a Python for each program.

A request is JSON (arguments of ``python``, environment, current folder, whether it leads a
session), with descriptors of its standard streams and of a socket, which gets the program's number
and then how it ended: see ``TorchProgram``.
"""

import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import sys
import types

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # no pool of NumPy's: threads do not survive a fork

sys.path[0] = ""
# Whatever the test that came first had done with signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
CONNECTION = socket.socket(fileno=int(sys.argv[1]))
REQUEST_BYTES = 1 << 20

# An optimizer's first step imports it, which takes nearly as long as torch itself.
import torch._dynamo  # noqa: E402, F401

assert len(os.listdir("/proc/self/task")) == 1, "only the thread that forks may be there"
gc.collect()
gc.freeze()  # else every child that ends looks through all of torch


def next_request():
    """The request that this process, a child, has to run."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(CONNECTION, REQUEST_BYTES, 4)
        if not text:
            os._exit(0)
        *streams, answer = descriptors
        waiting = os.fork()
        if waiting == 0:  # it waits for its program while the next one is begun
            CONNECTION.close()
            child = os.fork()
            if child == 0:
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for descriptor in descriptors:
                    os.close(descriptor)
                return json.loads(text)
            for stream in streams:
                os.close(stream)
            os.write(answer, b"%d" % child)
            os.write(answer, b"%d" % os.waitpid(child, 0)[1])
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


request = next_request()
if request["is_session"]:
    os.setsid()
os.chdir(request["folder"])
os.environ.clear()
os.environ.update(request["environment"])
sys.orig_argv = [sys.executable, *request["arguments"]]
kind, *sys.argv = request["arguments"]
module = sys.modules["__main__"] = types.ModuleType("__main__")
if kind == "-m":
    name, sys.argv[0], sys.path[0] = sys.argv[0], "-m", os.getcwd()
    runpy._run_module_as_main(name)
elif kind == "-c":
    source, file, sys.argv[0] = sys.argv[0], "<string>", "-c"
else:
    sys.argv.insert(0, kind)
    file = module.__file__ = kind
    sys.path[0] = os.path.dirname(os.path.abspath(file))
    with open(file) as opened:
        source = opened.read()
if kind != "-m":
    exec(compile(source, file, "exec"), module.__dict__)
