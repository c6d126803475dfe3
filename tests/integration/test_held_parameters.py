"""What modules hold is recorded whole, however much it is."""

import torch

import opscope


class Heap(torch.nn.Module):
    """Many parameters of many shapes in one module."""

    def __init__(self, count):
        super().__init__()
        for i in range(count):
            shape = [1 + i % 3] * (i % 7)
            self.register_parameter(f"part_{i}", torch.nn.Parameter(torch.zeros(shape)))

    def forward(self):
        """Nothing."""


def test_more_parameters_than_fit_in_one_block_of_the_arena():
    heap = Heap(5000)

    with opscope.profile(with_modules=True) as prof:
        heap()

    trace = prof.trace
    table, expected = trace.table("parameters"), dict(heap.named_parameters())
    assert [trace.names[name] for name in table["name"]] == list(expected)
    sizes = table.lists("sizes")
    assert [sizes[row] for row in range(len(table))] == [list(p.shape) for p in expected.values()]
    assert table["storage"].tolist() == [p.data_ptr() for p in expected.values()]
