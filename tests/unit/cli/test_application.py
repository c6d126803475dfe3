"""The command itself: help, version, wrong commands."""

import importlib
import os
import shutil
import subprocess
import sys

import pytest

from opscope.cli.application import COMMANDS, parser_of, parser_of_all
from opscope.cli.parser import seconds
from support.processes import run_python

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


def test_handlers_of_the_process_run_at_the_end(trace_folder):
    program = (
        "import atexit, sys; from opscope.cli import main; atexit.register(print, 'the end')\n"
        "sys.argv = ['opscope', 'sql', sys.argv[1], 'select 1 as one']; main()"
    )
    arguments = [sys.executable, "-c", program, str(trace_folder)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "one\n1\nthe end\n")


def first_line(name):
    return importlib.import_module(f"opscope.cli.{name}").__doc__.splitlines()[0]


THREADS = """
import os
from opscope.cli import application
application._module = lambda name: print("threads:", len(os.listdir("/proc/self/task")))
try:
    application.main(["sql"])
finally:
    print("variable:", os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize("chosen", [None, "2"])
def test_reading_starts_no_threads_for_matrix_products(chosen):
    """Programs that the command starts have theirs, as the user chose."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": chosen or ""}
    if chosen is None:
        del environment["OPENBLAS_NUM_THREADS"]
    done = run_python("-c", THREADS, env=environment)
    assert f"variable: {chosen}" in done.stdout
    if chosen is None:
        assert "threads: 1\n" in done.stdout


@pytest.mark.parametrize("width", [60, 200])
def test_it_fits(width, monkeypatch, command_line):
    monkeypatch.setenv("COLUMNS", str(width))
    for name in COMMANDS:
        text, about = command_line(name, "--help").out, parser_of(name)
        said = f"{about.description}\n{about.epilog}"
        as_they_are = [line for line in said.splitlines() if line.startswith((" ", "-"))]
        assert all(len(line) < width or line in as_they_are for line in text.splitlines())
        assert all(line == line.rstrip() for line in text.splitlines())


def test_every_command_says_what_it_does_and_has_two_examples(command_line):
    for name in COMMANDS:
        assert first_line(name) == COMMANDS[name]
        _, examples = command_line(name, "--help").out.split("examples:\n")
        assert examples.count(f"  opscope {name}") == 2
    assert "summary" in parser_of_all().format_help()


def test_run_shows_eight_options_and_all_on_request(command_line):
    short = command_line("run", "--help").out
    options = {word for word in short.split() if word.startswith("--")} - {"--help", "--help-all"}
    assert {one.strip(",.;") for one in options} >= {"--why", "--shapes", "--report"}
    assert len([line for line in short.splitlines() if line.startswith("  -")]) == 8 + 2
    assert "--schedule" not in short and "--schedule" in command_line("run", "--help-all").out


def test_what_can_be_chosen_is_named(command_line):
    text = command_line("summary", "--help").out
    assert "--format table|md|json|csv" in text
    assert "self_cpu_time_total, cpu_time_total" in " ".join(text.split())
    assert "\n- chrome (.json" in command_line("export", "--help").out


def test_seconds_may_be_fractions():
    assert seconds(0.1, 60)("0.5") == 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sql", "required: QUERY"),
        ("summary a b", "unrecognized arguments: b"),
        ("summary --row-limit", "--row-limit: expected one argument"),
        ("summary --row-limit two", "'two' is not a whole number"),
        ("summary --row-limit -2", "--row-limit: -2 is less than -1"),
        ("summary --row 2", "unrecognized arguments: --row"),
        ("summary --group-by-shape=true", "--group-by-shape: ignored explicit argument 'true'"),
        ("why --format green", "--format: 'green' is not one of table, md, json, csv"),
        ("top --every 9999", "--every: '9999' is not between 0.1 and 3600 seconds"),
        ("top --every soon", "--every: 'soon' is not between 0.1 and 3600 seconds"),
    ],
)
def test_what_is_wrong_is_reported_in_one_sentence(command_line, words, said):
    outcome = command_line(words)
    assert outcome.code == 2 and said.lower() in outcome.complaint.lower()
    assert outcome.complaint.endswith(f". See `opscope {words.split()[0]} --help`.")


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_every_command_and_its_options(command_line, shell):
    script = command_line("doctor --completion", shell).out
    assert "summary" in script and "row-limit" in script and "no-table" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(command_line, tmp_path):
    (tmp_path / "trace.opscope").mkdir()
    script = command_line("doctor --completion", "bash").out

    def offered(*words):
        typed = " ".join(words)
        asked = (
            f"COMP_WORDS=(opscope {typed}); COMP_CWORD={len(words)}; "
            '_shtab_opscope; echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{asked}"], cwd=tmp_path, capture_output=True, text=True
        )
        return done.stdout.split()

    assert offered("su") == ["summary"]
    assert offered("summary", "--row") == ["--row-limit"]
    assert offered("summary", "--format", "''") == ["table", "md", "json", "csv"]
    assert offered("summary", "tr") == ["trace.opscope"]
    assert offered("run", "--sh") == ["--shapes"]
    assert offered("run", "tr") == ["trace.opscope"]
    assert offered("run", "train.py", "tr") == ["trace.opscope"]
    assert offered("run", "--why", "-o", "out", "--sh") == ["--shapes"]
    for words in (["train.py"], ["--why", "train.py", "--memory"], ["-m", "timeit", "-n"]):
        assert not [one for one in offered("run", *words, "--") if one.startswith("-")]
