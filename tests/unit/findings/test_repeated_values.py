"""Which operators computed the same value, also where memory is written to in place."""

from __future__ import annotations

import numpy as np

from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import Subject
from support.build_trace import allocation, build_trace, span, tensor

SIZE = 64
KEPT = {"storage": 900, "impl": 900, "version": 0}
"""A tensor that was there before the recording."""


class Program:
    """A picture of operators one after the other, with the memory that they make."""

    def __init__(self):
        self.spans, self.blocks, self.made = [], [], 0

    def run(self, name, *inputs, makes=True, **options):
        """Call one on these tensors; what it makes, a tensor."""
        at = 10 * len(self.spans)
        self.spans.append(span(name, at, at + 8, inputs=list(inputs), **options))
        if not makes:
            return inputs[0]
        self.made += 1
        block = {"allocation_id": self.made, "address": 100 + self.made % 2}
        self.blocks.append(allocation(at + 1, SIZE, **block))
        return {"storage": 100 + self.made % 2, "allocation_id": self.made, "impl": self.made}

    def numbers(self):
        """Of every operator the number of its value."""
        trace = build_trace(self.spans, allocations=self.blocks)
        return computed_values(Subject(trace)).number

    def lost(self):
        """Whether others than those that are there twice write to what each made."""
        trace = build_trace(self.spans, allocations=self.blocks)
        values = computed_values(Subject(trace))
        _, group, count = np.unique(values.number, return_inverse=True, return_counts=True)
        return values.overwritten(count[group] > 1)


def counted(program, index, version=0):
    """What ``torch.zeros(n).scatter_add_(0, index, one).clamp(min=1)`` runs."""
    zeros = program.run("aten::zeros")
    index = tensor(4, **index)
    program.run("aten::scatter_add_", tensor(4, **zeros, version=version), index, makes=False)
    program.run("aten::clamp", tensor(4, **zeros, version=version + 1))


def test_writing_the_same_to_what_was_just_made_gives_the_same():
    program = Program()
    counted(program, KEPT)
    counted(program, KEPT)
    numbers = program.numbers()
    assert numbers[:3].tolist() == numbers[3:].tolist()
    assert len(set(numbers[:3].tolist())) == 3
    assert not program.lost().any()


def test_writing_something_else_gives_something_else():
    program = Program()
    counted(program, KEPT)
    counted(program, {**KEPT, "storage": 901, "impl": 901})
    first, second = np.split(program.numbers(), 2)
    assert first[0] == second[0] and first[1] != second[1] and first[2] != second[2]
    assert program.lost().tolist() == [True, True, False] * 2


def test_what_is_read_before_it_is_written_to_differs_from_what_is_read_after_it():
    program = Program()
    zeros = program.run("aten::zeros")
    program.run("aten::clamp", tensor(4, **zeros))
    program.run("aten::scatter_add_", tensor(4, **zeros), tensor(4, **KEPT), makes=False)
    program.run("aten::clamp", tensor(4, **zeros))
    numbers = program.numbers()
    assert numbers[1] != numbers[3]


def test_random_numbers_written_in_place_are_like_no_others():
    program = Program()
    for _ in range(2):
        zeros = program.run("aten::zeros")
        program.run("aten::normal_", tensor(4, **zeros), makes=False)
        program.run("aten::clamp", tensor(4, **zeros))
    first, second = np.split(program.numbers(), 2)
    assert first[0] == second[0] and first[1] != second[1] and first[2] != second[2]
