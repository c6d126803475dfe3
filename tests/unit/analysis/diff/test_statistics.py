"""Student's t against values of printed tables and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opscope.analysis.diff.statistics import (
    discoveries,
    estimate_rounds,
    normal_p,
    two_sided_p,
    two_sided_t,
)


def test_the_example_of_the_paper():
    # Section 3.2 of Benjamini and Hochberg (1995): 15 hypotheses, of which it rejects 4 at 0.05.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p_values += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert discoveries(np.array(p_values), 0.05).tolist() == [True] * 4 + [False] * 11
    in_no_order = np.array([0.9, 0.0001, 0.5, 0.0002])
    assert discoveries(in_no_order, 0.01).tolist() == [False, True, False, True]
    assert discoveries(np.zeros(0)).tolist() == []


def test_chance_alone_is_found_as_often_as_was_said():
    chance = np.random.default_rng(0).random((2000, 50))
    alarms = sum(discoveries(row, 0.05).any() for row in chance)
    assert 60 <= alarms <= 145  # 100 are expected, four standard deviations either way


PRINTED = [
    (0.05, 1, 12.7062), (0.05, 4, 2.7764), (0.05, 8, 2.3060), (0.05, 30, 2.0423),
    (0.01, 8, 3.3554), (0.001, 8, 5.0413), (0.05, 1e6, 1.95997),
]  # fmt: skip
"""Probability, degrees of freedom, and t, of printed tables."""


def test_printed_tables():
    for p, degrees, t in PRINTED:
        assert two_sided_t(p, degrees) == pytest.approx(t, rel=1e-4)
        assert two_sided_p(t, degrees) == pytest.approx(p, rel=1e-3)
    for t in (1.959964, -1.959964):
        assert normal_p(t) == pytest.approx(0.05, rel=1e-5)


def test_no_degrees_tell_nothing_and_infinite_values_are_no_chance():
    assert two_sided_p(5.0, 0) == 1.0
    assert two_sided_t(0.05, 0) == math.inf
    assert two_sided_p(math.inf, 3) == 0.0


def rounds(random, slower):
    """Five rounds of two versions. In each round other programs make both up to 30 % slower; one of
    two measures is bad."""
    speed = 1 + 0.3 * random.random((5, 1))
    for version in (1.0, slower):
        yield 1e6 * version * speed * np.exp(random.standard_normal((5, 2)) * [0.01, 0.5])


def test_measures_that_contradict_each_other_show_nothing():
    ratios = np.log([[0.62, 1.92], [0.83, 1.45], [0.63, 1.73]])  # of a busy machine
    assert estimate_rounds(np.full((3, 2), 1e6), 1e6 * np.exp(ratios)).p_value > 0.1


def test_what_disturbs_both_versions_hides_no_slower_step_and_makes_none():
    random = np.random.default_rng(3)
    pairs = [(slower, estimate_rounds(*rounds(random, slower))) for slower in [1, 1.05] * 100]
    wrong = [one for slower, one in pairs if (one.p_value <= 0.01) != (slower > 1)]
    assert len(wrong) <= 6  # 1 in 100 alarms, and some that are not found
    assert all(abs(one.change / one.a - slower + 1) < 0.03 for slower, one in pairs)
