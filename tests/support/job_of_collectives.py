"""Traces of ranks that do collectives together, as a backend on the processor records them."""

from support.build_trace import build_trace, span, tensor

GROUP = "0xab"


def rank_trace(ranks, collectives, *, metadata=None, before=0, groups=None):
    """One rank's trace.

    Args:
        ranks: of the group.
        collectives: (operator, inputs after the tensors and the group, call at, transfer from, to)
            in microseconds; None for a transfer that was not recorded.
        metadata: more of it.
        before: how many collectives its group had begun before.
        groups: other text for what process groups there are.
    """
    spans = []
    for number, (operator, more, call, start, end) in enumerate(collectives):
        inputs = [[tensor(250)], f"ProcessGroup {GROUP}", *more]
        spans.append(span(f"c10d::{operator}", call, call + 5, inputs=inputs))
        if start is not None:
            title = TITLES[operator]
            thread = "main" if title in ("send", "recv") else f"pool {number % 2}"
            spans.append(span(f"gloo:{title}", start, end, thread, is_async=True, kind=1))
    spans.sort(key=lambda one: one.start)
    about = {
        "process_groups": groups
        or {
            GROUP: {
                "pg_name": "0",
                "pg_desc": "default_pg",
                "ranks": list(ranks),
                "begun": [[1, before]],
            }
        },
        "host_name": "here",
    }
    return with_objects(build_trace(spans, metadata={**about, **(metadata or {})}))


TITLES = {
    "allreduce_": "all_reduce", "broadcast_": "broadcast", "barrier": "barrier", "send": "send",
    "recv_": "recv", "allgather_": "all_gather", "_reduce_scatter_base_": "all_reduce",
}  # fmt: skip


def with_objects(trace):
    """A trace in which the text of a group is an object, as the recorder has it."""
    scalars = trace.table("scalars")
    texts = [trace.names[value] for value in scalars["value"]]
    kinds = [
        12 if text.startswith("ProcessGroup") else kind
        for text, kind in zip(texts, scalars["type"], strict=True)
    ]
    return trace.with_tables({"scalars": scalars.replaced({"type": kinds})})
