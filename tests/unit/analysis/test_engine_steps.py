"""Steps of serving engines, in the published forms of their spans."""

import pytest

from opscope.analysis.engine_steps import EnginePhase, find_engine_steps
from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span

NOTE = {"kind": EventKind.ANNOTATION}
FORMS = [
    ("execute_context_2(1024)_generation_0(0)", (EnginePhase.PREFILL, 2, 1024, 0)),
    ("execute_context_0(0)_generation_14(14)", (EnginePhase.DECODE, 14, 0, 14)),
    ("execute_context_1(512)_generation_3(6)", (EnginePhase.MIXED, 4, 512, 6)),
    ("execute_context_0(0)_generation_0(0)", (EnginePhase.OTHER, 0, 0, 0)),
    ("prefill", (EnginePhase.PREFILL, 0, 0, 0)),
    ("step[decode bs=8]", (EnginePhase.DECODE, 8, 0, 8)),
    ("step[prefill bs=2 toks=300]", (EnginePhase.PREFILL, 2, 300, 0)),
    ("step[mixed bs=9 ext=100 dec=8]", (EnginePhase.MIXED, 9, 100, 8)),
    ("step[idle]", (EnginePhase.OTHER, 0, 0, 0)),
    ("step[TARGET_VERIFY bs=4]", (EnginePhase.OTHER, 4, 0, 0)),
    (
        "step[EXTEND bs=1 toks=1025 c_sqsq=1050625 c_sqsk=1050625 c_sk=1025]",
        (EnginePhase.PREFILL, 1, 1025, 0),
    ),
    ("step[DECODE bs=64 g_sqsq=64 g_sqsk=100032 g_sk=100032]", (EnginePhase.DECODE, 64, 0, 64)),
    (
        "step[MIXED bs=66 c=2 g=64 c_sq=2048 c_sk=2048 g_sq=64 g_sk=65600]",
        (EnginePhase.MIXED, 66, 2048, 64),
    ),
]


@pytest.mark.parametrize(("name", "about"), FORMS)
def test_forms(name, about):
    found = find_engine_steps(build_trace([span(name, 0, 10, **NOTE)]))
    (row,) = zip(
        found.phase, found.requests, found.prefill_tokens, found.decode_tokens, strict=True
    )
    assert row == about


@pytest.mark.parametrize(
    "name",
    ["step", "step[", "step[decode bs=x]", "step[decode bs=" + "9" * 4000 + "]", "my step[idle]",
     "execute_context_1(2)_generation_x(1)", "step[decode bs=1] "],
)  # fmt: skip
def test_other_names_are_no_steps(name):
    assert not len(find_engine_steps(build_trace([span(name, 0, 10, **NOTE)])))


def test_what_a_slow_step_did():
    steps = [span("step[decode bs=4]", 100 * n, 100 * n + 10, **NOTE) for n in range(9)]
    trace = build_trace(
        [*steps, span("step[decode bs=4]", 2000, 2100, **NOTE), span("aten::copy_", 2010, 2090)]
    )
    found = trace.engine_steps()
    (slow,) = found.slow
    assert "took 100 µs" in slow and "aten::copy_ 80%" in slow
    assert "decode" in str(found) and "210,526" in str(found)  # 40 tokens in 190 µs
