"""The programs that read torch.profiler's files read ours, and find in them what was recorded."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="records a PyTorch program")

import opscope  # noqa: E402 (torch may be missing)
from opscope.api.trace import Trace  # noqa: E402
from opscope.columns.schema import AllocationAction, EventKind  # noqa: E402

# Their own deprecation warnings.
pytestmark = pytest.mark.filterwarnings("ignore:::hta", "ignore:::torch_tb_profiler")

STEPS = [2, 3, 4]
HTA = "needs HolisticTraceAnalysis: pip install --no-deps HolisticTraceAnalysis plotly PyYAML"
PLUGIN = "needs TensorBoard's plugin: pip install --no-deps torch-tb-profiler"


def train(profiler: opscope.profile) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        with opscope.record_function("forward"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()


class Recorded:
    """What one profiled training run left."""

    def __init__(self, folder: Path) -> None:
        self.profiler = opscope.profile(
            record_shapes=True,
            profile_memory=True,
            with_stack=True,
            schedule=opscope.schedule(wait=1, warmup=1, active=3, repeat=1),
            on_trace_ready=opscope.tensorboard_trace_handler(str(folder), worker_name="w0"),
        )
        self.profiler.preset_metadata_json("distributedInfo", '{"rank": 0, "world_size": 1}')
        with self.profiler:
            train(self.profiler)
        (self.plain,) = map(str, folder.iterdir())
        self.gzip = self.plain + ".gz"
        self.profiler.export_chrome_trace(self.gzip)

    @property
    def trace(self) -> Trace:
        return self.profiler.trace

    def names(self, *kinds: EventKind) -> list[str]:
        trace = self.trace
        return [
            trace.event_name(event)
            for event, kind in enumerate(trace.events["kind"])
            if kind in kinds
        ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return Recorded(tmp_path_factory.mktemp("logs"))


@pytest.fixture(params=["plain", "gzip"])
def path(recorded, request):
    return getattr(recorded, request.param)


def test_torchs_validator_finds_nothing_wrong(path):
    validator = pytest.importorskip(
        "torch.profiler._trace_validator", reason="torch has it from 2.13 on"
    )

    assert validator.validate_trace(path) == (True, [])


def test_holistic_trace_analysis_reads_it(recorded, path):
    pytest.importorskip("hta", reason=HTA)
    from hta.common.trace import Trace as HtaTrace

    # WHEN HTA parses, aligns and indexes the file
    loaded = HtaTrace(trace_files={0: path}, trace_dir=os.path.dirname(path))
    loaded.load_traces(include_last_profiler_step=True, use_multiprocessing=False)

    # THEN it has every span, with the names, shapes, threads and steps that were recorded
    frame, symbols = loaded.get_trace(0), loaded.symbol_table.get_sym_table()
    frame["category"] = [symbols[i] for i in frame["cat"]]
    operators = frame[frame["category"] == "cpu_op"]
    assert Counter(symbols[i] for i in operators["name"]) == Counter(
        recorded.names(EventKind.OPERATOR)
    )
    assert set(operators["iteration"]) == set(STEPS)
    linear = operators[[symbols[i] == "aten::addmm" for i in operators["name"]]].iloc[0]
    assert linear["input_dims"] == [[32], [8, 16], [16, 32], [], []]
    assert linear["tid"] == os.getpid()
    assert frame["category"].value_counts()["python_function"] > 100
    assert loaded.meta_data[0]["distributedInfo"] == {"rank": 0, "world_size": 1}


def test_holistic_trace_analysis_finds_the_steps(path):
    analysis = pytest.importorskip("hta.trace_analysis", reason=HTA)

    steps = analysis.TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))

    assert steps.get_profiler_steps() == STEPS[:-1]  # it leaves out the last, as for any file


def test_tensorboard_plugin_reads_it(recorded, path, tmp_path):
    pytest.importorskip("torch_tb_profiler", reason=PLUGIN)
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    # WHEN the plugin analyses the file and makes the pages it shows
    data = RunProfileData.parse("w0", 1, path, str(tmp_path))
    pages = RunGenerator("w0", 1, data).generate_run_profile()

    # THEN steps, operators, modules and memory are those recorded
    assert data.steps_names == [str(step) for step in STEPS]
    calls = {op.name: op.calls for op in data.op_list_groupby_name}
    assert calls == Counter(recorded.names(EventKind.OPERATOR))
    titles = [view.display_name for view in pages.views]
    assert titles == ["Overview", "Operator", "Trace", "Memory", "Module"]
    (sequential,) = pages.module_stats
    assert (sequential.name, sequential.occurences) == ("Sequential_0", len(STEPS))
    assert [child.name for child in sequential.children] == ["Linear_0", "ReLU_0", "Linear_1"]
    allocations = recorded.trace.table("allocations")
    changes = allocations["action"] != AllocationAction.OUT_OF_MEMORY
    assert len(data.memory_snapshot.memory_records) == changes.sum()
    peak = allocations["total_allocated_bytes"].max()
    assert dict(data.memory_snapshot.get_peak_memory()) == {(0, -1): peak}
    # Steps are the outermost spans of the thread: nothing had to leave its line for them.
    tree = data.tid2tree[os.getpid()]
    assert [node.name for node in tree.children] == [f"ProfilerStep#{step}" for step in STEPS]
