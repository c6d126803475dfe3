"""Configuration objects of activities, of torch's and of ours."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="activities are torch's")

from torch.profiler import ProfilerActivity

import opscope
from opscope.torch_api.activities import parse_activities
from opscope.torch_api.activity_configs import (
    CuspyConfig,
    PerformanceMetricsConfig,
    ProfilerActivityConfig,
    activities_of_extensions,
    is_activity_config,
    not_recorded,
    wants_synchronisations,
)

CPU = ProfilerActivity.CPU


def test_without_kinds_all_are_recorded_and_with_none_none():
    assert parse_activities([{CPU: ProfilerActivityConfig()}], None).filters == {}
    assert parse_activities([{CPU: ProfilerActivityConfig([])}], None).filters == {CPU: set()}


def test_torchs_own_objects_are_understood_by_their_fields():
    torchs = SimpleNamespace(activity_types=["CPU_OP"], profiler_configs=[CuspyConfig()])
    assert is_activity_config(torchs)
    parsed = parse_activities([{CPU: torchs}], None)
    assert (parsed.filters, parsed.configs) == ({CPU: {"CPU_OP"}}, [CuspyConfig()])
    assert not any(map(is_activity_config, (["CPU_OP"], "CPU_OP", None, CuspyConfig())))


def test_synchronisations_are_a_switch():
    assert wants_synchronisations([CuspyConfig(), CuspyConfig(enable_cuda_sync_events=True)])
    assert not wants_synchronisations([CuspyConfig(), PerformanceMetricsConfig(["a"])])
    config = ProfilerActivityConfig(profiler_configs=[CuspyConfig(enable_cuda_sync_events=True)])
    with opscope.profile(activities=[{CPU: config}]) as prof:
        pass
    assert prof._settings.switches["enable_cuda_sync_events"]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (PerformanceMetricsConfig(["sm__cycles"]), "hardware counters"),
        (CuspyConfig(enable_environment_counters=True), "clocks, power"),
        (CuspyConfig(enable_graph_dependencies=True), "dependencies"),
        (CuspyConfig(enable_event_node_ids=True), "ids of the nodes"),
    ],
)
def test_what_is_not_recorded_is_reported(config, what):
    (said,) = not_recorded([config, config])
    assert what in said
    activities = [{CPU: ProfilerActivityConfig(profiler_configs=[config])}]
    with pytest.warns(UserWarning, match=f"opscope records no .*{what}"):
        parse_activities(activities, None)


def test_what_torch_hands_on_is_understood():
    assert activities_of_extensions({}) == []
    assert activities_of_extensions({"PERFORMANCE_METRICS": "sm__cycles"}) == not_recorded(
        [PerformanceMetricsConfig(["sm__cycles"])]
    )
