"""One truth in every view: summary, headline, report, findings and stacks, number by number."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import opscope
from opscope.cli import main
from opscope.cli.views.findings import headline
from opscope.report.page import report_html
from opscope.timeline.period import period_of
from opscope.timeline.waits import TimeKind, time_kind
from support.read_report import own_times_of_the_page, read_report
from support.torch_processes import run_torch

PROGRAM = Path(__file__).parents[1] / "programs" / "recorded_ways.py"
WAYS = ("operators", "functions", "scheduled")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Recorded in a process of its own: here other tests may have left threads that run."""
    folder = tmp_path_factory.mktemp("agree")
    done = run_torch(PROGRAM, folder, *WAYS)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module", params=WAYS)
def saved(request, recorded):
    return recorded / f"{request.param}.opscope"


@pytest.fixture(scope="module")
def trace(saved):
    return opscope.load(saved)


@pytest.fixture
def summary(saved, capsys):
    def call(*arguments):
        capsys.readouterr()
        main(["summary", str(saved), *arguments])
        return capsys.readouterr().out

    return call


@pytest.fixture(scope="module")
def report(trace):
    return read_report(report_html(trace))


def test_the_summary_and_the_page_give_every_name_the_same_time(trace, report, summary):
    content = json.loads(summary("--format", "json", "--row-limit", "-1"))
    rows = {row["name"]: row["cpu_self_ns"] for row in content["rows"] if row["cpu_self_ns"]}
    operators = report.data["operators"]["columns"]
    times = zip(operators["name"], operators["self"], operators["waits"], strict=True)
    assert {name: own for name, own, waits in times if own and not waits} == rows
    page = own_times_of_the_page(report)
    work = {name: own for name, own in page.items() if time_kind(name) is TimeKind.WORK and own}
    assert work == rows
    listed = csv.DictReader(io.StringIO(summary("--format", "csv", "--row-limit", "-1")))
    waiting = {row["name"] for row in content["waiting"]}
    found = {row["name"]: int(row["cpu_self_ns"]) for row in listed}
    assert {name: own for name, own in found.items() if own and name not in waiting} == rows


def test_shares_are_of_the_same_time_everywhere(trace, report, summary):
    period = period_of(trace)
    wall_ns = period.wall_ns
    content = json.loads(summary("--format", "json"))
    first = content["rows"][0]
    assert content["period"]["wall_ns"] == wall_ns
    assert report.data["period"]["to"] - report.data["period"]["from"] == wall_ns
    share = first["cpu_self_ns"] / wall_ns
    table = [line for line in summary().splitlines() if line.startswith(first["name"][:20])]
    assert f" {share:.1%} " in table[0]
    percent = f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"
    said = headline(trace)[1]  # a wait that is most of it stands in place of who waits
    assert f"{first['name']} {percent}" in said or said.startswith("most time: asleep")
    findings = trace.findings()
    assert findings.wall_ns + findings.taken_off_ns == wall_ns
    for found in report.data["findings"]["found"]:
        assert found["timeShare"] == pytest.approx(found["time"] / findings.wall_ns)


def test_each_view_says_what_it_speaks_of(trace, report, summary):
    about = str(period_of(trace))
    assert about in summary().lower()
    assert report.data["period"]["about"] == about
    assert about in trace.findings().looked_at
    left_out = report.data["period"]["leftOut"]
    assert (left_out in summary().replace("\n", " ")) and (left_out in trace.findings().looked_at)


def test_a_thread_has_no_more_time_than_there_was(trace, report):
    period = period_of(trace)
    assert len(period.trace.table("threads")) == 1
    own = [value for name, value in own_times_of_the_page(report).items()]
    assert sum(own) <= period.wall_ns
    operators = report.data["operators"]["columns"]
    assert sum(operators["self"]) <= period.wall_ns
    assert all(total <= period.wall_ns for total in operators["total"])


def test_stacks_add_up_to_the_times_under_them(trace, tmp_path):
    if not (trace.events["kind"] == 2).any():
        pytest.skip("without Python calls there are no stacks")
    trace.export("stacks", tmp_path / "x.stacks")
    lines = (tmp_path / "x.stacks").read_text().splitlines()
    exported_us = sum(int(line.rpartition(" ")[2]) for line in lines)
    period = period_of(trace)
    assert exported_us * 1000 <= period.wall_ns
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    # All but what is in no call, and the parts of microseconds that are cut off each line.
    own = own_times_of_the_page(read_report(report_html(trace)))
    assert exported_us * 1000 <= sum(own.values())
    assert exported_us * 1000 + 1000 * len(lines) >= 0.9 * sum(own.values())


def test_no_hook_of_ours_and_no_step_is_in_a_table(report, summary):
    rows = json.loads(summary("--format", "json", "--row-limit", "-1"))["rows"]
    names = {row["name"] for row in rows} | set(report.data["operators"]["columns"]["name"])
    ours = re.compile(r"opscope|_optimizer_step_code|ProfilerStep")
    assert not [name for name in names if ours.search(name)]
    assert np.all([row["cpu_self_ns"] >= 0 for row in rows])
