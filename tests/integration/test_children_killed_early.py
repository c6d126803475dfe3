"""Children that are killed as their recording begins: the rest of the job is there."""

import signal
import subprocess
import sys
import textwrap

import opscope
from opscope.recording.streams.load import parts_of
from opscope.storage.manifest import unfinished_recordings
from opscope.storage.processes import read_journal


def test_children_that_are_killed_as_they_begin_take_no_other_along(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import os, signal, time, torch
            torch.ones(1)
            for number in range(8):
                child = os.fork()
                if child == 0:
                    time.sleep(20)
                    os._exit(0)
                time.sleep(0.001 * number)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        """)
    )
    folder = tmp_path / "taken"
    run = (sys.executable, "-W", "ignore", "-m", "opscope", "run", "--children", "-o", folder)
    done = subprocess.run([*map(str, run), program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "did not import torch" not in done.stderr
    entries = read_journal(folder)
    children = [entry for entry in entries if entry.how_begun == "forked"]
    assert all(entry.has_torch for entry in children)
    killed = f"killed by {signal.SIGKILL.name}"
    assert {entry.ended for entry in children} <= {killed}
    recorded = parts_of(folder)
    (program_part,) = (entry.partition for entry in entries if entry.how_begun == "program")
    assert program_part in recorded
    assert len(opscope.load(folder, process=program_part.number).events) > 0
    assert unfinished_recordings(folder) == []
    early = len(entries) - len(recorded)
    assert early == 0 or f"{early} ended before their recordings began" in done.stderr
