"""The command itself: help, version, wrong commands."""

import os
import subprocess
import sys

from opscope.cli.application import COMMANDS

LOST = "opscope: DROPPED: 2 (memory budget)\n"
"""What every command says of this trace."""


def test_without_arguments_it_helps(command_line):
    outcome = command_line()
    assert outcome.code == 0
    assert all(f"\n    {command}" in outcome.out for command in COMMANDS)


def test_output_that_cannot_be_written_is_reported(trace_folder):
    arguments = [sys.executable, "-m", "opscope", "summary", str(trace_folder), "--format=json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == LOST + (
        "opscope: The output cannot be written: No space left on device. Redirect it to "
        "another file.\n"
    )


def test_a_reader_that_has_read_enough_is_no_error(trace_folder):
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [
        sys.executable,
        "-m",
        "opscope",
        "sql",
        str(trace_folder),
        "select * from range(9)",
    ]
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, LOST)


def test_without_standard_output(trace_folder):
    command = f'"{sys.executable}" -m opscope summary "{trace_folder}" --format=md >&-'
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, LOST)
