"""Student's t against values of printed tables and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opscope.analysis.diff.statistics import discoveries, normal_p, two_sided_p, two_sided_t


def test_the_example_of_the_paper():
    # Section 3.2 of Benjamini and Hochberg (1995): 15 hypotheses, of which it rejects 4 at 0.05.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p_values += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert discoveries(np.array(p_values), 0.05).tolist() == [True] * 4 + [False] * 11


def test_order_does_not_matter():
    p_values = np.array([0.9, 0.0001, 0.5, 0.0002])
    assert discoveries(p_values, 0.01).tolist() == [False, True, False, True]


def test_chance_alone_is_found_as_often_as_was_said():
    chance = np.random.default_rng(0).random((2000, 50))
    alarms = sum(discoveries(row, 0.05).any() for row in chance)
    assert 60 <= alarms <= 145  # 100 are expected, four standard deviations either way


def test_nothing_to_compare():
    assert discoveries(np.zeros(0)).tolist() == []


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("p", "degrees", "t"),
    [
        (0.05, 1, 12.7062),
        (0.05, 4, 2.7764),
        (0.05, 8, 2.3060),
        (0.05, 30, 2.0423),
        (0.01, 8, 3.3554),
        (0.001, 8, 5.0413),
        (0.05, 1e6, 1.95997),
    ],
)
def test_printed_tables(p, degrees, t):
    assert two_sided_t(p, degrees) == pytest.approx(t, rel=1e-4)
    assert two_sided_p(t, degrees) == pytest.approx(p, rel=1e-3)


@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 5.0, 100.0, 1e6])
def test_one_and_two_degrees_have_closed_forms(t):
    # Cauchy's distribution, and t / sqrt(2 + t²).
    assert two_sided_p(t, 1) == pytest.approx(2 * math.atan2(1, t) / math.pi, rel=1e-9)
    two = (2 / (2 + t * t)) / (1 + t / math.sqrt(2 + t * t))  # 1 - x without cancellation
    assert two_sided_p(t, 2) == pytest.approx(two, rel=1e-7)


def test_no_degrees_tell_nothing():
    assert two_sided_p(5.0, 0) == 1.0
    assert two_sided_t(0.05, 0) == INFINITE


def test_infinite_values_are_no_chance():
    assert two_sided_p(INFINITE, 3) == 0.0


def test_the_normal_distribution():
    assert normal_p(1.959964) == pytest.approx(0.05, rel=1e-5)
    assert normal_p(-1.959964) == pytest.approx(0.05, rel=1e-5)
