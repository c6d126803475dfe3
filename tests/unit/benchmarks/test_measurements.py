"""The page of measurements has the figures that are kept, and those alone that say something."""

from benchmarks.figures import Figure
from benchmarks.measurements import PAGE, _is_steady, with_figures


def test_the_page_has_the_newest_figures():
    page = PAGE.read_text()
    assert with_figures(page) == page, "run: python -m benchmarks.measurements"


def test_a_figure_whose_rounds_contradict_each_other_says_nothing():
    assert _is_steady(Figure("", "", "ns", [2, 3], [4, 5]))
    assert not _is_steady(Figure("", "", "ns", [-2, 3], [4, 5]))
    assert not _is_steady(Figure("", "", "ns", [2, 9], [4, 5]))
