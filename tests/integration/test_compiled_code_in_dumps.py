"""Dumps and long recordings have the lines of compiled code, as any other trace has."""

import json
import signal
import textwrap

import pytest
from tests.support.flight_recordings import dumps_in

import opscope
from opscope.recording import segments
from opscope.recording.compiled.listener import LoadedSites, read_sites
from opscope.recording.recovered import about_of, recover_file
from opscope.recording.segments import Drain, draining
from opscope.storage.manifest import unfinished_recordings
from support.torch_processes import run_torch

torch = pytest.importorskip("torch", reason="compiles functions")

PROGRAM = """
import sys, torch, opscope

def network(x):
    y = torch.relu(x @ x)  # line 5
    return (y * 2).sum()  # line 6

compiled = torch.compile(network)
x = torch.randn(8, 8)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("inductor")


def run(cache, *arguments, code=0):
    done = run_torch(*arguments, added={"TORCHINDUCTOR_CACHE_DIR": str(cache)}, timeout=400)
    assert done.returncode == code, done.stderr[-3000:]


def tables_of(trace):
    """How many sites there are, and the lines that they are of."""
    origins = trace.table("compiled_origins")
    return len(trace.table("compiled_sites")), {
        line for line in origins["line"].tolist() if line > 0
    }


def program(folder, text):
    path = folder / "program.py"
    path.write_text(PROGRAM + textwrap.dedent(text))
    return str(path)


def test_a_dump_has_what_a_saved_trace_has(tmp_path, cache):
    path = program(
        tmp_path,
        """
        compiled(x)  # before anything is recorded
        with opscope.flight_recorder(directory=sys.argv[1], triggers=[], budget=None) as recorder:
            with opscope.profile() as prof:
                compiled(x)
            recorder.dump(wait=True)
            compiled(torch.randn(9, 9))  # another graph, which the next dump has as well
            compiled(torch.randn(11, 11))
            recorder.dump(wait=True)
        prof.trace.save(sys.argv[2])
        """,
    )
    run(cache, path, tmp_path / "dumps", tmp_path / "saved")
    saved = opscope.load(tmp_path / "saved")
    first, second = dumps_in(tmp_path / "dumps")
    assert tables_of(saved)[0] > 0 and {5, 6} & tables_of(saved)[1]
    assert tables_of(first) == tables_of(saved)
    assert tables_of(second)[0] > tables_of(first)[0]
    assert second.compiled("all").coverage == saved.compiled("all").coverage


def test_a_long_recording_has_them(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "RECORDS", 5_000)
    monkeypatch.setattr(segments, "MARGIN_NS", 0)
    compiled = torch.compile(lambda x: torch.relu(x @ x).sum() * 2)
    x = torch.randn(8, 8)
    compiled(x)
    with opscope.profile(stream_to=tmp_path, keeper=False) as prof:
        for _ in range(3):
            compiled(x)
            for _ in range(4_000):
                with opscope.record_function("small"):
                    pass
            (path,) = unfinished_recordings(tmp_path)
            with draining(path):
                drain = Drain(path, about_of(path)["prefixes"])
                while drain.next():
                    pass
    assert len(drain.segments) > 1
    prof.trace.save(tmp_path)
    trace = opscope.load(tmp_path)
    assert tables_of(trace)[0] > 0
    assert trace.compiled("all").coverage > 0


def test_a_recording_whose_process_is_killed_has_them(tmp_path, cache):
    path = program(
        tmp_path,
        """
        import os, signal
        from opscope.recording import segments
        from opscope.recording.segments import draining
        from opscope.recording.recovered import about_of
        from opscope.storage.manifest import unfinished_recordings

        segments.RECORDS, segments.MARGIN_NS = 2_000, 0
        compiled(x)
        other = torch.compile(lambda x: torch.tanh(x @ x).sum())  # line 19
        with opscope.profile(stream_to=sys.argv[1], keeper=False):
            compiled(x)
            other(x)
            for _ in range(4_000):
                with opscope.record_function("small"):
                    pass
            (path,) = unfinished_recordings(sys.argv[1])
            with draining(path):
                drain = segments.Drain(path, about_of(path)["prefixes"])
                while drain.next():
                    pass
            compiled(x)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    folder = tmp_path / "recording"
    run(cache, path, folder, code=-signal.SIGKILL)
    (recording,) = unfinished_recordings(folder)
    recover_file(recording)
    lines = tables_of(opscope.load(folder))[1]
    assert {5, 6} & lines, "a graph that was loaded before the recording"
    assert 19 in lines, "a graph that was loaded during the recording"


def test_each_graph_is_reported_once_and_a_line_that_was_cut_is_left_out():
    compiled = torch.compile(lambda x: torch.tanh(x @ x) - 3)
    compiled(torch.randn(6, 6))
    loaded = LoadedSites()
    text = loaded.text()
    first, *others = text.splitlines(keepends=True)
    assert loaded.text() == text and len(read_sites(text)) == len(others) + 1
    ((file, (graph, sites)),) = json.loads(first).items()
    assert read_sites(first)[file][0] == graph and sites
    assert read_sites(first + first[:-5]).keys() == {file}
    assert read_sites(b"") == {}
