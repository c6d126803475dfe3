"""What an operator was called with, in the rows of a Chrome file."""

from opscope.api.trace import Trace
from opscope.columns.schema import ScalarType
from support.build_trace import build_trace, span
from support.chrome_files import spans_of


def test_an_empty_list_of_tensors_and_a_list_too_long_to_keep(export):
    trace = build_trace([span("op", 0, 1, inputs=[1, 1])])
    scalars = dict(trace.table("scalars")._columns)
    scalars["type"] = [ScalarType.TENSOR_LIST, ScalarType.INT_LIST]
    scalars["value"] = [-1, -1]
    trace = Trace({**trace._tables, "scalars": scalars}, trace.names)

    args = spans_of(export(trace))[0]["args"]

    assert args["Input type"] == ["TensorList", ""]
    assert args["Concrete Inputs"] == ["", ""]
    assert args["Input Dims"] == [[], []]


def test_keyword_arguments_are_written_as_torch_writes_them(export):
    keywords = {
        "stream": 0,
        "grid": "grid(1,)",
        "flag": True,
        "scale": 0.1,
        "far": float("inf"),
        "quoted": 'a "b"',
        "path": "C:\\x</script>",
        "list": [1, 2],
        "nothing": None,
        "External id": 99,
    }
    trace = build_trace(
        [
            span("k", 0, 1, keywords=keywords),
            span("k", 2, 3, keywords={"stream": "main", "grid": 3, "ok": 1}),
        ]
    )

    first, second = (row["args"] for row in spans_of(export(trace)))

    assert first["stream"] == 0
    assert first["grid"] == "grid(1,)"
    assert first["flag"] is True
    assert first["far"] == "inf"
    assert first["quoted"] == "None"
    assert first["path"] == "C:\\x</script>"
    assert first["External id"] == 1
    assert {"list", "nothing"}.isdisjoint(first)
    assert {"stream", "grid"}.isdisjoint(second) and second["ok"] == 1
