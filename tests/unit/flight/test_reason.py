"""Why a dump was made, in words."""

from opscope.flight.reason import Reason


def test_what_the_native_watch_saw():
    assert str(Reason.of_news("signal", 12)) == "signal (SIGUSR2)"
    assert str(Reason.of_news("standstill", 2_500_000_000)) == "hang (no step or event for 2.5 s)"
    assert Reason.of_news("memory", 3 << 20).detail == "3 MiB more are resident"
    assert Reason.of_news("asked", 7, 5) == Reason("asked for", "", 5)


def test_a_part_of_a_file_name():
    assert Reason("Loss is NaN / ../../x").slug == "loss-is-nan-x"
    assert Reason("Ä").slug == "dump"
