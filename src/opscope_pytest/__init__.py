"""opscope in tests: the plugin that pytest loads, which imports nothing until it is used.

A package of its own, because pytest imports plugins at every start, and importing anything of
``opscope`` loads its compiled part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from opscope_pytest.profiled import Profiler

_WHY_SKIPPED = "recording is off; pytest --opscope switches it on"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of pytest's command line."""
    group = parser.getgroup("opscope", "performance tests")
    group.addoption(
        "--opscope",
        action="store_true",
        help="Run tests that use the fixture `profiled`; without it they are skipped.",
    )
    group.addoption(
        "--opscope-save-baselines",
        action="store_true",
        help="Save the recordings of such tests as their baselines, instead of comparing.",
    )


@pytest.fixture
def profiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Profiler:
    """Record a function, and compare it: ``profiled(step).assert_no_slower_than(baseline)``."""
    saves = bool(request.config.getoption("--opscope-save-baselines"))
    if not (saves or request.config.getoption("--opscope")):
        pytest.skip(_WHY_SKIPPED)
    from opscope_pytest.profiled import Profiler

    # Workers of pytest-xdist share the folder above theirs.
    shared = tmp_path_factory.getbasetemp()
    is_worker = hasattr(request.config, "workerinput")
    return Profiler((shared.parent if is_worker else shared) / "opscope.lock", saves)
