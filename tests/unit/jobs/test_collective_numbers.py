"""Numbers for collectives: those of backends where they fit, else the order within the group."""

from types import SimpleNamespace

import numpy as np

from opscope.analysis.collectives.calls import NONE
from opscope.jobs.collective_numbers import OneRank, align, one_rank

KINDS = np.array([0, 1, 0, 0, 2, 1, 0, 0, 0, 1, 2, 0, 1, 1, 0, 2, 0, 1])


def rank(kinds, first_ns=0, number=None, machine=0, step_ns=1000):
    begin = first_ns + step_ns * np.arange(len(kinds))
    given = np.full(len(kinds), NONE) if number is None else number + np.arange(len(kinds))
    return OneRank(np.array(kinds, dtype=np.int64), given, begin, begin + step_ns // 2, machine)


def test_numbers_that_backends_gave_are_taken():
    first, second = rank(KINDS, number=7), rank(KINDS[3:], 3000, number=10)
    numbers = align([first, second])
    assert numbers[0].tolist() == list(range(7, 7 + len(KINDS)))
    assert numbers[1].tolist() == numbers[0][3:].tolist()


def test_without_numbers_the_order_decides():
    numbers = align([rank(KINDS), rank(KINDS, machine=1)])
    assert numbers[0].tolist() == numbers[1].tolist() == list(range(len(KINDS)))
    numbers = align([rank(KINDS), rank(KINDS[:7], 100)])  # as of one that was killed
    assert numbers[1].tolist() == list(range(7))


def test_numbers_that_do_not_fit_are_not_believed():
    """As where one rank sent messages that the other does not count."""
    numbers = align([rank(KINDS, number=7), rank(KINDS, 100, number=9)])
    assert numbers[0].tolist() == numbers[1].tolist()


def test_what_ended_before_it_began_elsewhere_is_another_one():
    alike = np.zeros(12, dtype=np.int64)
    numbers = align([rank(alike), rank(alike[4:], 4000)])
    assert (numbers[1] == NONE).all()


def test_who_gives_to_all_may_be_through_before_others_begin():
    """The root of every broadcast is, here; so nobody's end says anything of them."""
    names = ("allreduce", "broadcast", "barrier", "broadcast", "broadcast", "allreduce") * 3
    begin = 1000 * np.arange(len(names))
    late = np.where([name == "broadcast" for name in names], 400, 0)
    nothing = np.zeros(len(names), dtype=np.int64)
    signatures = {}
    ranks = [
        one_rank(
            SimpleNamespace(
                name=names, number=nothing + NONE, sent_bytes=nothing, received_bytes=nothing,
                begin_ns=begin + of_rank, end_ns=begin + of_rank + 300,
            ),
            np.arange(len(names)), signatures, 0, 0,
        )
        for of_rank in (0, late)
    ]  # fmt: skip
    first, second = align(ranks)
    assert first.tolist() == second.tolist() == list(range(len(names)))


def test_messages_are_distinguished_by_who_waits_for_whom():
    """Each is sent long before it is wanted, and just before the next one is."""
    signatures, nothing = {}, np.zeros(12, dtype=np.int64)
    begin = 1000 * np.arange(12)
    sender, receiver = (
        one_rank(
            SimpleNamespace(
                name=(name,) * 12, number=nothing + NONE, sent_bytes=nothing,
                received_bytes=nothing, begin_ns=begin + from_ns, end_ns=begin + 900,
            ),
            np.arange(12), signatures, 0, 0,
        )
        for name, from_ns in (("send", 0), ("recv", 850))
    )  # fmt: skip
    numbers = align([sender, receiver])
    assert numbers[0].tolist() == numbers[1].tolist() == list(range(12))


def test_between_machines_the_order_is_believed_of_as_many_alone():
    alike = np.zeros(12, dtype=np.int64)
    numbers = align([rank(alike), rank(alike[3:], 3500, machine=1)])
    assert (numbers[1] == NONE).all() and (numbers[0] != NONE).all()


def test_kinds_that_never_agree_have_none():
    numbers = align([rank(KINDS), rank([7, 8, 9, 7])])
    assert (numbers[1] == NONE).all()


def test_of_many_one_in_a_hundred_that_is_out_of_order_is_believed_and_two_are_not():
    alike = np.zeros(100_000, dtype=np.int64)
    first, second = rank(alike), rank(alike)
    for share, is_found in ((0.005, True), (0.02, False)):
        begin = first.begin_ns.copy()
        wrong = np.random.default_rng(0).permutation(len(begin))[: int(share * len(begin))]
        begin[wrong] += 10_000
        late = OneRank(second.signature, second.number, begin, begin + 500, 0)
        numbers = align([first, late])
        assert bool((numbers[1] == numbers[0]).all()) == is_found
