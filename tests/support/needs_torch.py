"""A pytest plugin: what needs torch is skipped where there is none, as in rows of the matrix."""

import importlib.util

import pytest

from opscope.errors import MissingDependencyError

HAS_TORCH = importlib.util.find_spec("torch") is not None
REASON = "needs torch"


def lacks_torch(error):
    """Whether that is what stopped a test."""
    if isinstance(error, MissingDependencyError):
        return "torch is not installed" in str(error) or "needs torch," in str(error)
    is_of_torch = getattr(error, "name", None) or ""
    return isinstance(error, ModuleNotFoundError) and is_of_torch.partition(".")[0] == "torch"


def skip(report, path):
    report.outcome = "skipped"
    report.longrepr = (str(path), 0, f"Skipped: {REASON}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if not HAS_TORCH and call.excinfo is not None and lacks_torch(call.excinfo.value):
        skip(report, item.path)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if not HAS_TORCH and report.failed and "No module named 'torch" in str(report.longrepr):
        skip(report, collector.path)
    return report
