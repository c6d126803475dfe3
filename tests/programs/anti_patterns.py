"""A program with the mistakes that torch's pattern matchers know; prints what they find.

    python anti_patterns.py torch|opscope

torch's own matchers run on the event tree of whichever profiler is named.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

if sys.argv[1] == "opscope":
    import opscope.drop_in

    opscope.drop_in.install()

import torch
from torch.profiler import _pattern_matcher, _utils, profile
from torch.utils.data import DataLoader

MATCHERS = [
    _pattern_matcher.ExtraCUDACopyPattern,
    _pattern_matcher.ForLoopIndexingPattern,
    _pattern_matcher.FP32MatMulPattern,
    _pattern_matcher.OptimizerSingleTensorPattern,
    _pattern_matcher.SynchronizedDataLoaderPattern,
    _pattern_matcher.GradNotSetToNonePattern,
    _pattern_matcher.Conv2dBiasFollowedByBatchNorm2dPattern,
    _pattern_matcher.MatMulDimInFP16Pattern,
]


def train() -> None:
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(4 * 36, 5))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, foreach=False)
    for images in DataLoader(torch.randn(8, 3, 8, 8), batch_size=4):
        optimizer.zero_grad(set_to_none=False)
        network(images).sum().backward()
        optimizer.step()


def compute() -> None:
    table = torch.empty(20, 20)
    for row in range(20):
        table[row] = row
    half = torch.randn(7, 9, dtype=torch.bfloat16)
    torch.mm(half, half.t())


def main() -> None:
    train()  # whatever happens only once has happened
    with profile(with_stack=True, record_shapes=True, profile_memory=True) as recorded:
        train()
        compute()
    found: dict[str, object] = {}
    for matcher in MATCHERS:
        events = matcher(recorded).matched_events()
        places = [_pattern_matcher.source_code_location(event) for event in events]
        found[matcher.__name__] = [[event.name for event in events], places]
    named = _pattern_matcher.NamePattern(recorded, "aten::add_").matched_events()
    found["NamePattern"] = len(named)
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        _pattern_matcher.report_all_anti_patterns(recorded, json_report_dir=folder)
        written = json.loads((Path(folder) / "torchtidy_report.json").read_text())
    evaluation = _utils.BasicEvaluation(recorded.profiler)
    negative = [m for m in evaluation.metrics.values() if m.self_time_ns < 0]
    with contextlib.redirect_stdout(io.StringIO()):
        optimizable = [str(e) for e in evaluation.get_optimizable_events(3)]
    found |= {"console": printed.getvalue(), "report": written, "negative": len(negative)}
    found |= {"optimizable": optimizable, "queue": len(evaluation.queue_depth_list)}
    json.dump(found, sys.stdout)


main()
