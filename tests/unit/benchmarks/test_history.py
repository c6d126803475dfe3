"""The kept figures: what a run adds, and the page that draws them."""

import json
import re

import pytest
from benchmarks import history
from benchmarks.figures import Figure


def figure(ours, target=0.4):
    return Figure("recording", "operators", "ns/event", ours, [100.0] * len(ours), target=target)


def test_a_run_adds_a_file(tmp_path):
    path = history.keep([figure([30.0, 20.0, 40.0])], "2.13.0", tmp_path / "kept")
    run = json.loads(path.read_text())
    assert run["torch"] == "2.13.0" and run["commit"]
    (row,) = run["figures"]
    assert (row["opscope"], row["other"], row["ratio"], row["target"]) == (30.0, 100.0, 0.3, 0.4)


def write(folder, number, figures):
    (folder / f"{number}.json").write_text(
        json.dumps(
            {
                "when": f"day {number}",
                "commit": "abc",
                "machine": "a machine",
                "python": "3.11",
                "torch": "2.13",
                "figures": [history._row(one) for one in figures],
            }
        )
    )


def test_figures_of_several_runs_are_drawn(tmp_path):
    for number, ours in enumerate((50.0, 30.0, 20.0)):
        write(tmp_path, number, [figure([ours])])
    page = history.page(tmp_path)
    assert "| recording, against torch.profiler | operators | 0.5 | 0.2 |" in page
    assert "<title>1: 0.5, 2: 0.3, 3: 0.2</title>" in page and "stroke-dasharray" in page
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', page)]
    assert heights == sorted(heights) and len(heights) == 3


def test_a_figure_of_one_run_or_without_a_target(tmp_path):
    write(tmp_path, 1, [figure([50.0], None)])
    assert "<svg" not in history.page(tmp_path)
    write(tmp_path, 2, [figure([0.0], None)])
    page = history.page(tmp_path)
    assert "<svg" in page and "stroke-dasharray" not in page


def test_figures_without_a_ratio_are_not_drawn(tmp_path):
    write(tmp_path, 1, [Figure("size", "a file", "bytes", [1.0], [], compared_with="")])
    assert "size" not in history.page(tmp_path)


def test_without_runs_it_says_so(tmp_path):
    assert "No run was kept yet." in history.page(tmp_path)


@pytest.mark.parametrize("path", sorted(history.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_kept_is_whole(path):
    run = json.loads(path.read_text())
    assert {"when", "commit", "machine", "python", "torch", "figures"} == set(run)
    assert len(run["figures"]) > 5
