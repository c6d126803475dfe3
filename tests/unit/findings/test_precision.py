"""What double precision costs of operators: what grows with their elements, not calling them."""

import pytest

from opscope.findings.find import find_findings
from support.build_trace import build_trace, span, tensor


def saved_share(elements, took_us):
    spans = [
        span("aten::mul", at, at + took_us, inputs=[tensor(elements, dtype="float64")])
        for at in range(0, 20 * (took_us + 1), took_us + 1)
    ]
    return find_findings(build_trace(spans))["double-precision"].saved_share


@pytest.mark.parametrize(
    ("elements", "took_us", "least", "most"), [(100, 4, 0.0, 0.05), (4_000_000, 4_000, 0.45, 0.5)]
)
def test_only_computing_is_quicker_in_single_precision(elements, took_us, least, most):
    assert least < saved_share(elements, took_us) < most


def test_operators_that_are_slower_still_in_double_precision_save_more():
    saved = {}
    for name in ("aten::mul", "aten::sigmoid", "aten::native_layer_norm"):
        spans = [span(name, 0, 900, inputs=[tensor(1_000_000, dtype="float64")])]
        found = find_findings(build_trace(spans), which="all")["double-precision"]
        saved[name] = found.saved_ns / 900_000
    assert saved["aten::mul"] == pytest.approx(0.5, abs=0.01)
    assert saved["aten::sigmoid"] == pytest.approx(1 - 1 / 2.9, abs=0.01)
    assert saved["aten::native_layer_norm"] == pytest.approx(1 - 1 / 1.2, abs=0.01)
