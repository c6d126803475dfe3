"""A lazy list is a list in every way but that its elements are made late."""

import copy
import json
import operator
import pickle

import pytest

from opscope.torch_api.event_list.lazy_list import LazyList


def lazy(length=5):
    made = []

    def make(i):
        made.append(i)
        return i * 10

    items = LazyList()
    items.fill_lazily(length, make)
    return items, made


def test_one_element_makes_only_that_one():
    items, made = lazy()

    assert items[1] == 10 and items[-1] == 40 and items[1:3] == [10, 20]
    assert made == [1, 4, 1, 2]


WHOLE = [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (list, WHOLE),
        (tuple, tuple(WHOLE)),
        (sorted, WHOLE),
        (lambda x: [*x], WHOLE),
        (lambda x: list(reversed(x)), WHOLE[::-1]),
        (lambda x: x[::-2], [40, 20, 0]),
        (lambda x: operator.add(x, [1]), [*WHOLE, 1]),
        (lambda x: operator.add([1], x), [1, *WHOLE]),
        (lambda x: x * 2, WHOLE * 2),
        (lambda x: 2 * x, WHOLE * 2),
        (lambda x: x.copy(), WHOLE),
        (lambda x: x.index(30), 3),
        (lambda x: x.count(30), 1),
        (lambda x: 30 in x, True),
        (lambda x: 31 in x, False),
        (lambda x: x == WHOLE, True),
        (lambda x: x == lazy()[0], True),
        (lambda x: x != WHOLE, False),
        (repr, repr(WHOLE)),
        (json.dumps, json.dumps(WHOLE)),
        (lambda x: copy.copy(x) == WHOLE, True),
        (lambda x: copy.deepcopy(x) == WHOLE, True),
        (lambda x: max(x), 40),
        (lambda x: list(map(str, x)), [str(v) for v in WHOLE]),
        (lambda x: [1, 2].__iadd__(x), [1, 2, *WHOLE]),
    ],
)
def test_reading_it_as_a_list(read, expected):
    assert read(lazy()[0]) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x.append(1), [*WHOLE, 1]),
        (lambda x: x.extend([1, 2]), [*WHOLE, 1, 2]),
        (lambda x: x.extend(x), WHOLE * 2),
        (lambda x: x.insert(0, 1), [1, *WHOLE]),
        (lambda x: x.pop(), WHOLE[:-1]),
        (lambda x: x.remove(20), [0, 10, 30, 40]),
        (lambda x: x.clear(), []),
        (lambda x: x.reverse(), WHOLE[::-1]),
        (lambda x: x.sort(key=lambda v: -v), WHOLE[::-1]),
        (lambda x: x.__setitem__(0, 7), [7, 10, 20, 30, 40]),
        (lambda x: x.__setitem__(slice(1, 4), [7]), [0, 7, 40]),
        (lambda x: x.__delitem__(0), WHOLE[1:]),
        (lambda x: x.__iadd__([1]), [*WHOLE, 1]),
        (lambda x: x.__imul__(2), WHOLE * 2),
    ],
)
def test_a_change_turns_it_into_an_ordinary_list(change, expected):
    items, _ = lazy()
    assert items.as_made

    change(items)

    assert list(items) == expected and len(items) == len(expected)
    assert not items.as_made


def test_pickling_leaves_what_makes_the_elements_behind():
    items, _ = lazy()

    restored = pickle.loads(pickle.dumps(items))

    assert restored == WHOLE and type(restored) is LazyList and not restored.as_made
