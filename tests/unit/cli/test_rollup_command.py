"""``opscope ranks --rollup``: what was made, what was there, and what could not be made."""

import pytest

from opscope.jobs.rollup.read import Rollup
from opscope.storage.manifest import ROLLUP
from support.build_trace import build_trace, span


@pytest.fixture
def job(tmp_path):
    for rank in range(3):
        build_trace([span("aten::mm", 0, 5 + rank)]).save(tmp_path / "job", rank=rank)
    return tmp_path / "job"


def test_it_says_what_it_made(command_line, job):
    outcome = command_line("ranks --rollup", job)
    assert outcome.code == 0
    assert "computed the statistics of 0 of 3 processes; 3 were up to date" in outcome.err
    (job / "rank=00001" / ROLLUP).unlink()
    assert (
        "computed the statistics of 1 of 3 processes; 2" in command_line("ranks --rollup", job).err
    )
    assert Rollup.of(job / "rank=00001") is not None
    assert (
        command_line("ranks --rollup", job, "--again")
        .err.strip()
        .endswith("computed the statistics of 3 of 3 processes")
    )


def test_what_fails_is_reported_and_the_rest_made(command_line, job):
    for part in job.iterdir():
        (part / ROLLUP).unlink()
    (job / "rank=00000" / "names.parquet").write_bytes(b"")
    outcome = command_line("ranks --rollup", job)
    assert outcome.code == 1
    assert "contains no finished" in command_line("ranks --rollup", job / "nothing").complaint
    assert "names.parquet is damaged" in outcome.err
    assert (
        "computed the statistics of 2 of 3" in outcome.err
        and "could not be computed: 0." in outcome.err
    )
