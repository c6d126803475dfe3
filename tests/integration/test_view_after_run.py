"""``opscope run --view``: the page is served once the program has ended, which ends as it would."""

import re
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

pytest.importorskip("torch", reason="records a program")

from support.processes import run_opscope


def test_the_page_of_a_run_is_served_until_ctrl_c(tmp_path):
    (tmp_path / "t.py").write_text(
        "import os, sys, torch\ntorch.ones(3)\nif os.fork(): sys.exit(3)"
    )
    command = [sys.executable, "-m", "opscope", "run", "--view", "t.py"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        said = iter(process.stderr.readline, "")
        address = next(found[1] for line in said if (found := re.search(r"open (http\S+)", line)))
        assert b"aten::ones" in urlopen(address).read()
        process.send_signal(signal.SIGINT)
        assert not re.search(r"open http", process.stderr.read())
    assert process.returncode == 3


def test_a_flight_recorder_has_no_page(tmp_path):
    done = run_opscope("run", "--view", "--flight-recorder", "5s", "t.py", cwd=tmp_path)
    assert done.returncode == 2 and "--view needs a recording" in done.stderr
