"""A few random programs that count what they do; ``make torture`` runs them by the hour."""

import warnings

import pytest

pytest.importorskip("torch", reason="records operators")

from torture.runner import Asked, Finding, run

PROGRAMS = 2


def _is_found_again(finding: Finding) -> bool:
    """What threads do to each other differs each time; a crash or a hang needs no proof."""
    if finding.how != "exit code 1":
        return True
    asked = Asked(first=finding.seed, count=1, seconds=0)
    return any(run(asked, lambda _: None).findings for _ in range(3))


@pytest.mark.slow
def test_whatever_threads_do_each_window_holds_what_they_did_in_it():
    said: list[str] = []
    result = run(Asked(first=1, count=PROGRAMS, seconds=0), said.append)
    for finding in result.findings:
        assert not _is_found_again(finding), "\n".join(said)
        warnings.warn(f"once, and not again: {finding.said}", stacklevel=1)
    assert result.seeds == PROGRAMS - len(result.findings)
    assert result.windows > 0 and result.events > 0
