"""Programs that have no fault, of which nothing is said."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.support.advice import LEVELS, findings_of, marked_lines  # noqa: E402

DATA, WIDE = torch.rand(9, 8), torch.rand(512, 256)
WEIGHTS = [torch.rand(64) for _ in range(12)]


@pytest.mark.parametrize("batch_size", [4, 32])
def test_a_training_loop_is_no_loop_over_elements_where_operators_alone_were_recorded(batch_size):
    images = torch.randn(20 * batch_size, 16)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images), batch_size)
    network = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def train():
        for (batch,) in batches:
            optimizer.zero_grad()
            network(batch).sum().backward()
            optimizer.step()

    found = {finding.id for finding in findings_of(train)}
    assert "for-loop-indexing" not in found
    assert "for-loop-indexing" in {f.id for f in findings_of(lambda: [x.exp() for x in rows_of()])}


def test_a_line_that_mostly_calls_something_else_is_no_loop_over_many_tensors():
    def program():
        for i in range(200):
            WEIGHTS[i].add_(1) if i < 12 else WIDE.sin()

    assert "tensor-by-tensor" in findings_of(program, **LEVELS[1]).absent


def test_gradients_of_a_network_that_are_set_to_zero_are_no_loop_of_the_program():
    network = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(9)))

    def program():
        for _ in range(20):
            network.zero_grad(set_to_none=False)
            network(DATA).sum().backward()

    assert "tensor-by-tensor" in findings_of(program, **LEVELS[1]).absent


def small_training(steps):
    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)) for _ in range(9)]
    network = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), foreach=False)
    for _ in range(steps):
        optimizer.zero_grad(), network(DATA).sum().backward()
        optimizer.step()  # step


def test_what_a_line_calls_is_no_loop_of_the_line_over_many_tensors():
    findings = findings_of(lambda: small_training(12), **LEVELS[1])
    assert {findings["single-tensor-optimizer"].places[0].line} == marked_lines(__file__, "step")
    assert "tensor-by-tensor" in findings.absent


def test_printing_a_tensor_is_no_loop_over_its_parts():
    def program():
        network = torch.nn.Linear(8, 8)
        loss = network(DATA).sum()
        return sum(len(str(loss)) + len(f"{DATA}") for _ in range(60))

    assert "for-loop-indexing" in findings_of(program, **LEVELS[1]).absent


def test_no_round_of_a_loop_is_taken_for_a_part_of_what_all_of_them_look_at():
    def scores(boxes):
        return sum(boxes[:, column].sum() for column in range(8)) + boxes[1].sum()

    def program():
        boxes = torch.rand(40, 8)
        for _ in range(20):
            scores(boxes)

    assert "for-loop-indexing" not in {one.id for one in findings_of(program, **LEVELS[1])}


def test_a_loop_in_which_a_function_of_the_program_says_what_comes_next_is_none_over_parts():
    def environment(action):
        return [0.1 * value for value in action]

    def program():
        network, seen = torch.nn.Linear(8, 8), torch.zeros(40, 8)
        state = torch.zeros(8)
        for step in range(40):
            seen[step] = state
            action = network(state).detach()
            state = torch.tensor(environment(action.numpy().tolist()))

    assert "for-loop-indexing" not in {one.id for one in findings_of(program, **LEVELS[1])}


def test_what_a_round_makes_and_writes_to_is_no_list_of_tensors():
    def program():
        for _ in range(40):
            boxes = torch.rand(4, 4)
            boxes.mul_(2)

    assert "tensor-by-tensor" in findings_of(program, **LEVELS[1]).absent


def rows_of():
    rows = torch.ones(400, 4)
    return (rows[number] for number in range(len(rows)))
