"""A notebook that is run by a real kernel, saved, and turned into a page without one."""

import json

import pytest

pytest.importorskip("torch", reason="records cells")
nbformat = pytest.importorskip("nbformat", reason="notebooks are not installed")
nbclient = pytest.importorskip("nbclient", reason="notebooks are not installed")
nbconvert = pytest.importorskip("nbconvert", reason="notebooks are not installed")
pytest.importorskip("ipykernel", reason="there is no kernel")

CELLS = (
    "%load_ext opscope\nimport torch, time",
    "def slow():\n    time.sleep(0.02)\n    return torch.ones(5).sum()",
    "%%opscope --why\nfor step in range(10):\n    slow()",
    "print(_.trace.findings()[0].places[0])",
)


def test_a_saved_notebook_shows_the_page(tmp_path):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    nbformat.write(book, tmp_path / "book.ipynb")
    cells = json.loads((tmp_path / "book.ipynb").read_text())["cells"]
    shown = cells[2]["outputs"][-1]["data"]
    assert "".join(shown["text/plain"]).startswith("verdict: ")
    assert "".join(shown["text/html"]).count("<iframe srcdoc=") == 1
    assert "".join(cells[3]["outputs"][0]["text"]).startswith("In [2]:")
    page, _ = nbconvert.HTMLExporter().from_filename(tmp_path / "book.ipynb")
    assert page.count("<iframe ") == page.count(" srcdoc=") == 1 and "verdict: " in page
