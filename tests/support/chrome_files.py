"""Chrome files as tests look at them."""

import gzip
import json

from opscope.export.chrome.writer import chrome_blocks


def load(path):
    """The file as Python objects; a number with a fraction as exact nanoseconds."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return json.loads(text, parse_float=lambda number: int(number.replace(".", "")))


def document_of(trace):
    """What is written for a trace, as JSON is usually read."""
    return json.loads(b"".join(bytes(block) for block in chrome_blocks(trace, "t")))


def op(name, ts, dur, tid=1, cat="cpu_op", **args):
    """An event of such a file, as torch.profiler would have written it."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def names(trace):
    """What the events of a trace that was read are called."""
    return [trace.event_name(i) for i in range(len(trace.events))]


def spans_of(document):
    return [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]


def named(document, name):
    found = [e for e in document["traceEvents"] if e["name"] == name]
    assert len(found) == 1, f"{len(found)} rows are called {name}"
    return found[0]
