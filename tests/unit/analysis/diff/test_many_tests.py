"""The procedure of Benjamini and Hochberg, on their own example and on chance alone."""

import numpy as np

from opscope.analysis.diff.many_tests import discoveries


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
