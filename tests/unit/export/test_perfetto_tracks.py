"""Protocol buffer bytes, against Google's own."""

from __future__ import annotations

import pytest

from opscope.export.perfetto_tracks import message

pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@pytest.mark.parametrize("pid", [0, 1, 127, 128, 2**31 - 1])
@pytest.mark.parametrize("name", ["", "python", "名前", "\ud800", "x" * 300])
def test_fields_are_as_google_reads_them(pid, name):
    descriptor = message((1, 2**64 - 1), (3, message((1, pid), (6, name))), (9, True))
    parsed = pb2.TrackDescriptor.FromString(descriptor)
    assert parsed.uuid == 2**64 - 1
    assert parsed.process.pid == pid
    assert parsed.process.process_name == name.encode("utf-8", "replace").decode()
    assert parsed.disallow_merging_with_system_tracks
