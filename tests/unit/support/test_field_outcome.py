"""How two runs of a library are compared: opscope's own lines are none of the program's."""

from collections import Counter

from field.outcome import Outcome, differences, outcome_of

REPORT = """<testsuites><testsuite>
<testcase classname="t" name="good"/>
<testcase classname="t" name="bad"><failure message="at 0x7f00 after 1.5 s">...</failure></testcase>
</testsuite></testsuites>"""
WARNED = """
========= warnings summary =========
t.py::good
  t.py:3: UserWarning: slow

-- Docs: ...
2 passed in 3 s
"""


def test_lines_of_ours_and_the_answer_of_why_are_left_out(tmp_path):
    errors = (
        "opscope: recording\nof the program\nopscope: verdict: healthy\nhigh  A finding\n"
        "opscope: look closer with `opscope summary`\nlast of the program\n"
    )
    outcome = outcome_of(0, "out\n", errors, tmp_path / "none.xml")
    assert outcome.complained == Counter(["of the program", "last of the program"])
    assert outcome.said == Counter(["out"])


def test_of_tests_their_ends_and_warnings_are_compared_but_no_times(tmp_path):
    report = tmp_path / "tests.xml"
    report.write_text(REPORT)
    outcome = outcome_of(1, WARNED, "", report)
    again = REPORT.replace("0x7f00", "0x1234").replace("1.5", "22")
    report.write_text(again)
    assert differences(outcome, outcome_of(1, WARNED.replace("3 s", "9 s"), "", report)) == []
    assert "t.py:#: UserWarning: slow" in outcome.said


def test_what_differs_is_named():
    plain = Outcome(0, {"t.a": "passed"}, Counter(["1.5"]))
    recorded = Outcome(1, {"t.a": "failure"}, Counter(["1.6"]), Counter(["a warning"]))
    assert differences(plain, recorded) == [
        "exit code 0, recorded 1",
        "test t.a: passed, recorded failure",
        "said plain only: 1.5",
        "said recorded only: 1.6",
        "complained recorded only: a warning",
    ]


def test_torchs_profiler_may_be_silent_where_ours_takes_its_place():
    plain = Outcome(0, complained=Counter(["USDT:# profiler_start"]))
    assert differences(plain, Outcome(0)) == []
    assert differences(Outcome(0), plain) != []
