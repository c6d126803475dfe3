"""Threads that were begun just before a recording, and have run nothing yet."""

import _thread
import threading

import torch

import opscope
from opscope.recording.recovered import recover


def test_their_recording_can_be_read(tmp_path):
    done = threading.Barrier(41)
    prof = opscope.profile(with_stack=True, stream_to=tmp_path, keeper=False)
    prof.start()
    prof.stop()  # what takes long at the first time
    for _ in range(10):
        prof = opscope.profile(with_stack=True, stream_to=tmp_path / "t", keeper=False)
        for _ in range(40):
            _thread.start_new_thread(done.wait, ())
        prof._section.run(prof._begin, prof._undo_begin)
        torch.ones(2).add(1)
        file = prof._cycles[-1].recording.stream.path
        assert len(recover(file).events)
        done.wait()
        prof._cancel()
        file.unlink()
