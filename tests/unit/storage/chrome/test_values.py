"""What stands for times, numbers, names and threads in Chrome files, usual or not."""

import pytest

from opscope import load_trace
from opscope.storage.chrome import native_columns


@pytest.fixture
def read(tmp_path):
    def load(*events, top=""):
        path = tmp_path / "t.json"
        path.write_text(f'{{{top}"traceEvents": [{", ".join(events)}]}}')
        return load_trace(path)

    return load


def event(**fields):
    given = {"ph": '"X"', "ts": "1", "pid": "1", "tid": "1", **fields}
    return "{" + ", ".join(f'"{key}": {value}' for key, value in given.items()) + "}"


@pytest.mark.parametrize("name", ["null", "true", "12", "1.50", "NaN", '[1, "a"]', '{"a": 2}'])
def test_names_that_are_no_texts_are_what_stands_there(read, name):
    assert read(event(name=name, cat='"x"')).event_name(0) == name


@pytest.mark.parametrize(
    ("time", "expected"),
    [("0.0015000000000000000000000000000000001", 2), ('"5."', 5000), ('"007.5"', 7500),
     ("25e-4", 2), ("35e-4", 4), ("2305843009213692.9", 2305843009213692900), ("-3.25", -3250),
     ("2.5e3", 2_500_000), ("0.0005", 0), ("0.0015", 2), ("0.00150000000000000000000001", 2),
     ("0.00050000000000000000000001", 1), ("1e-400", 0), ("7771632580123.457", 7771632580123457),
     ("1" + "0" * 4200 + "e-4200", 1000), ("-2305843009213692", -2305843009213692000)],
)  # fmt: skip
def test_times_in_every_way_that_json_has(read, time, expected):
    assert read(event(ts=time)).events["start_ns"].tolist() == [expected]


@pytest.mark.parametrize(
    "time",
    ["2305843009213693.99", '"nan"', '"--5"', '"5 5"', '" 7 "', '"1_0"', '"+5"', '"٣"', "true",
     "-Infinity", "1e19", "null", "[1]", "1e300", '"1e999999999"', "1e22", "2305843009213694.0",
     "2305843009213693", '".5"', '""', "1e99999999999999999999", "1e400"],
)  # fmt: skip
def test_what_is_no_time_is_counted(read, time):
    trace = read(event(ts=time), event(name='"good"'))
    assert trace.ledger["import"]["dropped: no usable time"] == 1
    assert (trace.event_name(0), trace.ledger["events"]["recorded"]) == ("good", 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [('"-7"', -7), ('"--7"', -1), ("7.0", -1), ("true", -1), ('"007"', 7), ('"٣"', -1),
     ("9223372036854775808", -1), ('"9223372036854775807"', 2**63 - 1), ("[7]", -1),
     ('"' + "0" * 20 + '7"', -1), ('"\\u0037"', 7)],
)  # fmt: skip
def test_integers_in_every_way_that_json_has(read, value, expected):
    trace = read(event(cat='"cpu_op"', args=f'{{"Sequence number": {value}}}'))
    assert trace.events["sequence_number"].tolist() == [expected]


def test_threads_are_identified_by_the_file(read):
    same = [event(tid="1"), event(tid="1"), event(pid='"a"', tid="null"), event(pid='"\\u0061"')]
    other = [event(tid='"1"'), event(tid="1.0"), event(tid="true"), event(tid="[1]")]
    trace = read(*same, *other)
    assert trace.events["thread"].tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    names = [trace.names[i] for i in trace.table("threads")["name"]]
    assert names[1] == " (process a)"
    assert len(set(trace.table("threads")["system_thread_id"].tolist())) == 7


def test_a_border_between_process_and_thread_is_seen(read):
    trace = read(event(pid='"as1"', tid='"b"'), event(pid='"a"', tid='"1sb"'))
    assert trace.events["thread"].tolist() == [0, 1]


def test_a_line_beside_another_is_of_its_thread_from_then_on(read):
    said = event(ph='"M"', name='"thread_name"', tid="5", args='{"name": "n", "overlaps tid": 1}')
    trace = read(event(tid="5"), said, event(tid="1"), event(tid="5"))
    assert trace.events["thread"].tolist() == [0, 1, 1]


def test_an_error_in_an_answer_ends_the_reading(read, monkeypatch):
    def interrupted(text):
        raise KeyboardInterrupt

    monkeypatch.setattr(native_columns, "meaning_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(event())
