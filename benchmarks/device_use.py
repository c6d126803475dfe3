"""``python -m benchmarks.device_use FILE --hta PYTHON``: questions about a GPU, here and in HTA.

HolisticTraceAnalysis has to be installed in the environment of ``PYTHON``. Both read the same file
in processes of their own, in turn; printed are what they say, and the median time of reading and of
answering. HTA is asked for its breakdowns of time and of idle time, the overlap of communication
and computation, statistics of launches, lengths of queues, and kernels by kind.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

_HTA = """
import json, logging, os, sys, time, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis

start = time.perf_counter()
folder = os.path.dirname(sys.argv[1])
trace = TraceAnalysis({0: sys.argv[1]}, folder, include_last_profiler_step=True)
read = time.perf_counter()
times = trace.get_temporal_breakdown(visualize=False).iloc[0]
idle = trace.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
overlap = trace.get_comm_comp_overlap(visualize=False).iloc[0, 1]
delays = trace.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
queues = trace.get_queue_length_summary(ranks=[0])
trace.get_gpu_kernel_breakdown(visualize=False)
done = time.perf_counter()
print(json.dumps({
    "read_s": read - start,
    "answered_s": done - read,
    "busy_us": float(times["compute_time(us)"] + times["non_compute_time(us)"]),
    "computing_us": float(times["compute_time(us)"]),
    "hidden_percent": float(overlap),
    "deepest": {int(row[1]): int(at["max"]) for row, at in queues["queue_length"].iterrows()},
    "launches": len(delays),
}))
"""

_OURS = """
import json, sys, time
from opscope.analysis.device_use.device_use import find_device_use
from opscope.trace.load import load_trace

start = time.perf_counter()
trace = load_trace(sys.argv[1])
read = time.perf_counter()
(device,) = find_device_use(trace, "all").devices
done = time.perf_counter()
print(json.dumps({
    "read_s": read - start,
    "answered_s": done - read,
    "busy_us": device.busy_ns / 1000,
    "computing_us": device.computing_ns / 1000,
    "hidden_percent": 100 * device.hidden_communicating_ns / max(device.communicating_ns, 1),
    "deepest": {stream.stream: stream.depth_max for stream in device.streams},
    "launches": sum(stream.launches for stream in device.streams),
}))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--hta", required=True, help="a Python that has HTA")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    programs = {"opscope": (sys.executable, _OURS), "HTA": (options.hta, _HTA)}
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, (python, program) in programs.items():
            command = [python, "-c", program, str(options.file.resolve())]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            answers[name].append(json.loads(done.stdout.splitlines()[-1]))
    for name, given in answers.items():
        print(f"{name}: {json.dumps(given[-1])}")
    for what in ("read_s", "answered_s"):
        ours, theirs = (
            statistics.median(answer[what] for answer in answers[name]) for name in programs
        )
        print(f"{what}: {ours:.3f} / {theirs:.3f}, ratio {ours / theirs:.3f}")


if __name__ == "__main__":
    main()
