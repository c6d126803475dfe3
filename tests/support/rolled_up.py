"""What rollups say of traces that are on no disk."""

from pathlib import Path
from tempfile import TemporaryDirectory

from opscope.jobs import rank_steps as of_rollups
from opscope.jobs.rollup.contents import contents_of
from opscope.jobs.rollup.places import places_of_table
from opscope.jobs.rollup.read import Rollup
from opscope.storage.partition import Partition


def places_of(trace):
    """Where it spends its time."""
    tables = contents_of(trace, Partition("rank", 0)).tables
    return places_of_table(tables["rollup_places"], len(tables["rollup_steps"]))


def rank_steps(traces):
    """The steps of ranks, in their order."""
    with TemporaryDirectory() as folder:
        saved = [trace.save(Path(folder), rank=rank) for rank, trace in enumerate(traces)]
        rollups = {Partition("rank", n): Rollup.of(part) for n, part in enumerate(saved)}
        return of_rollups.rank_steps(rollups)
