"""A small trace on disk, and folders of traces whose files say something else."""

import json

from support.build_trace import build_trace, span, tensor


def small_trace():
    """Three events, two of them in the first, with tensors."""
    return build_trace(
        [
            span("step", 0, 100),
            span("aten::mm", 10, 30, inputs=[tensor(2, 3), tensor(3, 4)], sequence_number=5),
            span("aten::mm", 40, 50, "worker"),
        ],
        metadata={"host": "h"},
        ledger={"events": {"recorded": 3}},
    )


def edit_manifest(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def rewrite(folder, table, frame):
    """Have a table hold something else."""
    file = folder / f"{table}.parquet"
    frame.to_parquet(file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["tables"][table]["bytes"] = file.stat().st_size
    edit_manifest(folder, tables=manifest["tables"])
