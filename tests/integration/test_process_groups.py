"""Which process groups there were is in every recording, whenever they came and went."""

import json
import textwrap

import opscope
from support.torch_processes import run_torch

PROGRAM = """
    import os, signal, sys
    import torch
    import torch.distributed as dist

    def begin():
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())

    def work(count):
        for _ in range(count):
            dist.all_reduce(torch.ones(4))
"""


def run(folder, body, *arguments, expected=0):
    script = folder / "program.py"
    script.write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(body))
    done = run_torch(*arguments, script, cwd=folder, added={"GLOO_SOCKET_IFNAME": "lo"})
    assert done.returncode == expected, done.stderr
    # Some torches say there how many ranks there are.
    return "".join(line for line in done.stdout.splitlines(True) if not line.startswith("[Gloo]"))


def groups_of(trace):
    """Names with ranks and how many collectives each had begun, of a trace."""
    return {
        group["pg_name"]: (group["ranks"], [count for _, count in group["begun"]])
        for group in trace.metadata.get("process_groups", {}).values()
    }


def test_groups_that_are_gone_before_the_recording_ends_are_known(tmp_path):
    run(
        tmp_path,
        """
        import opscope
        begin(); work(2)
        with opscope.profile(record_shapes=True) as profile:
            work(3)
            dist.new_group([0])
            dist.destroy_process_group()
        profile.trace.save("trace")
        """,
    )
    trace = opscope.load(tmp_path / "trace")
    groups = groups_of(trace)
    assert groups["0"][0] == [0] and groups["0"][1][0] == 2 and groups["0"][1][-1] == 5
    assert groups["1"][0] == [0]
    texts = {trace.names[value] for value in trace.table("scalars")["value"].tolist()}
    shown = {text.partition(" ")[2] for text in texts if text.startswith("ProcessGroup")}
    assert shown and shown <= trace.metadata["process_groups"].keys()


def test_a_program_that_is_killed_leaves_its_groups(tmp_path):
    run(
        tmp_path,
        "begin(); work(3); os.kill(os.getpid(), signal.SIGKILL)",
        *("-m", "opscope", "run", "--shapes", "--output", "trace"),
        expected=-9,
    )
    trace = opscope.load(tmp_path / "trace")
    assert groups_of(trace)["0"][0] == [0]
    assert trace.metadata["distributedInfo"]["world_size"] == 1


def test_a_dump_of_the_flight_recorder_knows_them(tmp_path):
    dump = run(
        tmp_path,
        """
        import opscope
        begin()
        with opscope.flight_recorder(directory="dumps") as recorder:
            work(5)
            print(recorder.dump("test"))
        """,
    )
    assert groups_of(opscope.load(tmp_path / dump.strip()))["0"][1][-1] == 5


def test_torchs_own_table_of_groups_stays_one(tmp_path):
    out = run(
        tmp_path,
        """
        import json, pickle
        import opscope
        begin()
        with opscope.profile():
            second = dist.new_group([0])
            table = dist.distributed_c10d._world.pg_group_ranks
            facts = [isinstance(table, dict), len(table), table[second], second in table]
            dist.destroy_process_group(second)
            facts += [len(table), dist.get_world_size()]
        dist.destroy_process_group()
        begin(); work(1)
        facts += [len(dist.distributed_c10d._world.pg_group_ranks)]
        dist.destroy_process_group()  # torch 2.15 aborts at times where one is left
        print(json.dumps(facts))
        """,
    )
    assert json.loads(out) == [True, 2, {"0": 0}, True, 1, 1, 1]


def test_without_torch_distributed_there_are_none():
    with opscope.profile() as profile:
        pass
    assert "process_groups" not in profile.trace.metadata
