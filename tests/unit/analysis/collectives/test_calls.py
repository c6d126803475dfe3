"""What a collective moved, said by torch or worked out."""

from opscope.analysis.collectives.calls import find_collectives
from support.build_trace import build_trace, span, tensor
from support.job_of_collectives import with_objects

GROUPS = {"process_groups": {"0xab": {"pg_name": "7", "pg_desc": "tp", "ranks": [1, 3, 5]}}}
GROUP = "ProcessGroup 0xab"


def with_group(*spans):
    return with_objects(build_trace(spans, metadata=GROUPS))


def test_an_all_reduce_is_worked_out_from_its_arguments():
    [found] = find_collectives(
        with_group(span("c10d::allreduce_", 0, 1, inputs=[[tensor(4, 3), tensor(2)], GROUP]))
    )

    assert found.attributes == {
        "collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 14,
        "out_msg_nelems": 14, "in_split_size": [], "out_split_size": [], "global_rank_start": 1,
        "global_rank_stride": 2, "pg_name": "7", "pg_desc": "tp", "pg_size": 3,
    }  # fmt: skip
    assert found.ranks == [1, 3, 5]


def test_sides_and_splits_are_distinguished():
    [found] = find_collectives(
        with_group(
            span(
                "c10d::alltoall_base_", 0, 1,
                inputs=[tensor(6, dtype="int64"), tensor(4, dtype="int64"), GROUP, [4, 2], [1, 3]],
            )
        )
    )  # fmt: skip

    assert found.attributes["in_msg_nelems"] == 4
    assert found.attributes["out_msg_nelems"] == 6
    assert found.attributes["in_split_size"] == [1, 3]
    assert found.attributes["out_split_size"] == [4, 2]
    assert found.attributes["dtype"] == "Long"


def test_messages_know_their_peer_by_its_global_rank():
    sent, received = find_collectives(
        with_group(
            span("c10d::send", 0, 1, inputs=[[tensor(2)], GROUP, 2, 9]),
            span("c10d::recv_", 2, 3, inputs=[[tensor(2)], GROUP, 0, 9]),
        )
    )

    assert (sent.peer, sent.tag, sent.attributes["collective_name"]) == (5, 9, "send")
    assert (received.peer, received.attributes["out_msg_nelems"]) == (1, 2)


def test_torchs_own_description_wins():
    said = {"Collective name": "allreduce", "dtype": "Half", "In msg nelems": 9,
            "In split size": "[2, 2]", "Process Group Name": "0"}  # fmt: skip
    [found] = find_collectives(
        with_group(
            span("c10d::allreduce_", 0, 10, inputs=[[tensor(4)], GROUP]),
            span("record_param_comms", 1, 9, keywords=said),
        )
    )

    assert found.event == 1
    assert found.attributes == {
        "collective_name": "allreduce", "dtype": "Half", "in_msg_nelems": 9,
        "in_split_size": [2, 2], "pg_name": "0",
    }  # fmt: skip
