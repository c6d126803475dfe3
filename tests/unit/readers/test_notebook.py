import threading
import time

import pytest

pytest.importorskip("torch", reason="records cells")
pytest.importorskip("IPython", reason="IPython is not installed")

from IPython.core.interactiveshell import InteractiveShell

from opscope.base.progress import report_progress
from opscope.readers import cell_progress
from opscope.readers.notebook import CellProfile


@pytest.fixture(scope="module")
def shell():
    found = InteractiveShell.instance(history_manager=None)
    found.run_line_magic("load_ext", "opscope")
    yield found
    InteractiveShell.clear_instance()


def run(shell, cell):
    """The value of a cell, whose number is counted."""
    return shell.run_cell(cell, store_history=True)


def test_a_cell_is_recorded_and_runs_in_the_notebook(shell, capsys):
    found = run(shell, "%%opscope\nimport torch\nx = torch.ones(3).sum()\nx + 1").result
    assert isinstance(found, CellProfile)
    assert "aten::sum" in found.trace.names
    assert shell.user_ns["x"].item() == 3 and "tensor(4.)" in capsys.readouterr().out
    assert run(shell, "_.trace").result is found.trace
    assert "__value_of_cell__" not in shell.user_ns


def test_lines_are_those_that_the_notebook_shows(shell):
    run(shell, "import time, torch\ndef slow():\n    time.sleep(0.02)\n    torch.ones(1)")
    number = shell.execution_count
    found = run(shell, "%%opscope --why\nfor _ in range(3):\n    slow()").result
    places = [place for one in found.trace.findings() for place in one.places]
    assert (f"In [{number - 1}]", 3) in {(place.file, place.line) for place in places}
    assert f"In [{number}](1): <module>" in found.trace.names
    assert "run_cell" not in str(found) and "interactiveshell" not in str(found)


def test_threads_of_the_kernel_never_rank(shell):
    end = threading.Event()

    def serve():
        while not end.is_set():
            time.sleep(0.0005)
            sum(range(1000))

    serve.__module__ = "ipykernel.iostream"
    threads = [threading.Thread(target=serve), threading.Thread(target=lambda: serve())]
    for thread in threads:
        thread.start()
    try:
        found = run(shell, "%%opscope --stack\ntorch.ones(9).sum()\ntime.sleep(0.05)").result
    finally:
        end.set()
        for thread in threads:
            thread.join()
    numbers = found.trace.table("threads")["system_thread_id"]
    seen = set(numbers[found.trace.events["thread"]].tolist())
    assert threads[0].native_id not in seen
    assert threads[1].native_id in seen  # of a program's own thread, which is not the kernel's


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%opscope\n1/0", "ZeroDivisionError"),
        ("%%opscope\nx = = 1", "SyntaxError"),
        ("%%opscope --bad\n1", "UsageError: %opscope has no option --bad"),
        ("%%opscope what\n1", "UsageError: %%opscope takes options only"),
        ("%opscope", "UsageError: There is nothing to record"),
        ("%%opscope\nimport asyncio\nawait asyncio.sleep(0)\n1/0", "ZeroDivisionError"),
    ],
)
def test_what_goes_wrong_is_shown_as_the_notebook_shows_it(shell, capsys, cell, said):
    assert not run(shell, cell).success  # cells after it do not run
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    assert "parsers/notebook.py" not in shown.out + shown.err


AWAITS = """%%opscope --stack
import asyncio
async def part(size):
    for _ in range(3):
        torch.ones(size).sum()
        await asyncio.sleep(0.001)
    return size
sizes = await asyncio.gather(part(3), part(5))
sum(sizes)"""


def test_a_cell_may_await(shell, capsys):
    found = run(shell, AWAITS).result
    assert shell.user_ns["sizes"] == [3, 5] and "8" in capsys.readouterr().out
    named = "select count(*) from named_events where name "
    assert found.trace.sql(named + "= 'aten::ones'").fetchall() == [(6,)]
    assert found.trace.sql(named + "like '%: part'").fetchall() >= [(2,)]
    assert found.trace.sql(named + "like '%run_cell_async'").fetchall() == [(0,)]
    run(shell, "y = %opscope --no-page await asyncio.sleep(0, 7)")
    assert isinstance(shell.user_ns["y"], CellProfile)


def test_a_long_analysis_says_how_far_it_is(shell, capsys, monkeypatch):
    monkeypatch.setattr(cell_progress, "QUIET_S", 0.0)
    run(
        shell,
        "from opscope.base.progress import report_progress\n"
        "report_progress(1, 4)\nreport_progress(2, 4)",
    )
    assert capsys.readouterr().out.count("opscope: 25% done") == 1  # the next comes too soon
    monkeypatch.setattr(cell_progress, "QUIET_S", 60.0)
    run(shell, "report_progress(1, 4)\nraise ValueError")
    assert "done" not in capsys.readouterr().out
    report_progress(1, 2)  # outside cells: no listener
    assert capsys.readouterr().out == ""


def test_the_page_is_in_the_cell_and_nothing_of_it_is_markup_there(shell):
    cell = "%%opscope\nimport opscope\nwith opscope.record_function('\"><script>x()</script>'):\n"
    found = run(shell, cell + "    torch.ones(3)").result._repr_html_()
    before, _, page = found.partition('<iframe srcdoc="')
    page, quote, after = page.partition('"')
    assert quote and "sandbox" in after and "allow-same-origin" not in after
    assert "<" not in page and "<script" not in before + after
