"""Forked children that record themselves, and workers of data loaders."""

from __future__ import annotations

import gc
import threading

import torch

import opscope
from torture import expectations
from torture.acts import Player, act
from torture.children import LONGEST_S, in_child
from torture.invariants import check_invariants
from torture.program import Program, Settings
from torture.windows import OPTIONS, Window, choose_options


@act(2)
def fork(player: Player) -> None:
    """A child that does things, records itself and compares; its parent waits for it."""
    if "forks" in player.program.settings.without:
        return
    seed = player.random.randrange(1 << 30)
    in_child(lambda: _child(player, seed))


def _child(parent: Player, seed: int) -> str:
    """What is wrong; nothing if all is well."""
    given = parent.program.settings
    first_actor = given.first_actor + 1000  # not to be mistaken for functions around the fork
    program = Program(Settings(seed, given.effects, given.without, first_actor))
    program.as_actor(program.history.new_actor(), lambda: _record_in_child(parent, program))
    if program.history.errors:
        return "\n".join(program.history.errors)
    told = []
    for window in program.history.windows:
        check_invariants(window.look())
        told += expectations.differences(window, program.history)
    return "\n".join(told)


def _record_in_child(parent: Player, program: Program) -> None:
    player = Player(program, str(program.settings.seed))
    # torch refuses to run backward in a child of a process whose backward used threads.
    player.primitives = [name for name in player.primitives if "backward" not in name]
    player.operate()
    for window in list(parent.program.history.windows):  # which are none of the child's
        if isinstance(window.profile, opscope.profile) and player.random.random() < 0.5:
            window.profile.stop()
    for _ in range(2):
        options = choose_options(player.random)
        window = Window(program, opscope.profile(**options), options)
        window.start()
        for _ in range(player.random.randrange(6)):
            player.operate()
        if player.random.random() < 0.3:
            program.start_thread(player.operate).join()
        window.stop()
    assert not gc.isenabled()


class _Samples(torch.utils.data.Dataset):
    """Whose workers record themselves, and give what they counted."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> int:
        options = dict.fromkeys(OPTIONS[:4], number % 2 == 0)
        with opscope.profile(**options) as prof:
            torch.full((number + 1,), 1.0).neg()
        trace = prof.trace
        check_invariants(trace)
        names = [trace.event_name(row) for row in range(len(trace.events))]
        return names.count("aten::neg")


@act(1)
def load_data(player: Player) -> None:
    """In a thread that is not counted: what the loader itself runs is not compared."""
    program = player.program
    if "forks" in program.settings.without or player.random.random() < 0.5:
        return

    def body() -> None:
        loader = torch.utils.data.DataLoader(_Samples(), num_workers=2, timeout=LONGEST_S)
        assert [int(batch) for batch in loader] == [1, 1, 1, 1]

    actor = program.history.new_actor(counted=False)
    thread = threading.Thread(target=program.as_actor, args=(actor, body))
    thread.start()
    thread.join()
