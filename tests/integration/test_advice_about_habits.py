"""Findings about habits of real programs: each at its line, and none where it is left off."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.support.advice import LEVELS, findings_of, in_some_recording, is_at  # noqa: E402

DATA = torch.rand(512, 256)
LABELS, POOL = torch.randint(0, 24, (512,)), [torch.rand(64) for _ in range(400)]
SHUFFLED = torch.utils.data.TensorDataset(torch.rand(20_000, 4))
NARROW = torch.nn.ModuleList(torch.nn.Linear(256, 4) for _ in range(12))
HEAD = torch.nn.Linear(64, 2_000)


def means_by_mask():
    means = []
    for label in range(24):
        means.append(DATA[LABELS.eq(label)].mean(0))  # masks
    return torch.stack(means)


def means_by_index():
    sums = torch.zeros(24, 256).index_add(0, LABELS, DATA)
    return sums / torch.bincount(LABELS, minlength=24)[:, None]


def loaded(passes):
    batches = torch.utils.data.DataLoader(SHUFFLED, batch_size=4, shuffle=True)
    begun = iter(batches)
    for _ in range(8):
        (batch,) = next(iter(batches) if passes else begun)  # shuffled
        torch.tanh(batch)


def shuffled():
    loaded(passes=True)


def shuffled_once():
    loaded(passes=False)


def in_whole_passes():
    for _ in range(8):
        for (batch,) in torch.utils.data.DataLoader(SHUFFLED, batch_size=20_000, shuffle=True):
            torch.tanh(batch)


def stacked():
    for _ in range(8):
        rows = torch.stack(POOL)[torch.randint(0, 400, (8,))]  # stacked
        torch.tanh(rows)


def sampled():
    for _ in range(8):
        rows = torch.stack([POOL[i] for i in torch.randint(0, 400, (8,)).tolist()])
        torch.tanh(rows)


def read_whole():
    for _ in range(8):
        rows = torch.stack(POOL)
        torch.tanh(rows[torch.randint(0, 400, (8,))]), rows.sum()


def scores_of_all():
    for _ in range(8):
        HEAD(torch.rand(4, 32, 64))[:, -1].softmax(-1)  # last


def scores_of_the_last():
    for _ in range(8):
        HEAD(torch.rand(4, 32, 64)[:, -1]).softmax(-1)


def three_layers():
    data = DATA[:16]
    for _ in range(20):
        torch.cat([NARROW[0](data), NARROW[1](data), NARROW[2](data)], 1).sum().backward()


def narrow_layers():
    for _ in range(20):
        data = DATA[:16]
        torch.cat([layer(data) for layer in NARROW], 1).sum().backward()  # narrow


def products_with(columns):
    for _ in range(20):
        torch.tanh(columns @ torch.rand(256, 4))  # strided


BROAD = torch.rand(2_000, 512)


def every_second():
    products_with(BROAD[:, ::2])


def every_second_copied():
    products_with(BROAD[:, ::2].contiguous())


def every_second_that_changes():
    for _ in range(20):
        BROAD.add_(1)
        torch.tanh(BROAD[:, ::2] @ torch.rand(256, 4))


CURVED = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24))


def jacobian():
    for _ in range(4):
        x = DATA[0, :24].clone().requires_grad_()
        y = CURVED(x)
        torch.stack([torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(24)])  # row


def jacobian_at_once():
    for _ in range(24):
        torch.func.jacrev(CURVED)(DATA[0, :24])


def of_each_sample():
    for i in range(24):
        torch.autograd.grad(CURVED(DATA[i, :24]).sum(), list(CURVED.parameters()))


FAULTS = [
    ("for-loop-indexing", jacobian, "row", jacobian_at_once),
    ("for-loop-indexing", jacobian, "row", of_each_sample),
    ("for-loop-indexing", means_by_mask, "masks", means_by_index),
    ("data-shuffled-again", shuffled, "shuffled", shuffled_once),
    ("data-shuffled-again", shuffled, "shuffled", in_whole_passes),
    ("partly-used-results", stacked, "stacked", sampled),
    ("partly-used-results", stacked, "stacked", read_whole),
    ("partly-used-results", scores_of_all, "last", scores_of_the_last),
    ("modules-one-by-one", narrow_layers, "narrow", three_layers),
    ("repeated-copies", every_second, "strided", every_second_copied),
    ("repeated-copies", every_second, "strided", every_second_that_changes),
]


@pytest.mark.parametrize("level", LEVELS, ids=["stacks", "why"])
@pytest.mark.parametrize(("pattern", "faulty", "mark", "_"), FAULTS)
def test_a_habit_is_found_at_its_line(pattern, faulty, mark, _, level):
    assert in_some_recording(faulty, is_at(pattern, __file__, mark), level)


@pytest.mark.parametrize("level", LEVELS, ids=["stacks", "why"])
@pytest.mark.parametrize(("pattern", "_", "mark", "mended"), FAULTS)
def test_a_program_without_it_does_not_have_it(pattern, _, mark, mended, level):
    assert in_some_recording(mended, lambda found: pattern in found.absent, level)


def test_workers_are_no_advice_where_every_batch_begins_the_data_again():
    ids = {finding.id for finding in findings_of(shuffled)}
    assert "data-shuffled-again" in ids and "synchronous-data-loading" not in ids


def test_what_a_loop_costs_its_backward_pass_is_in_its_saving():
    rows = DATA.clone().requires_grad_()

    def training(rows):
        return lambda: torch.stack([rows[i].exp() for i in range(512)]).sum().backward()

    def saves_most(findings):
        loop = findings["for-loop-indexing"]
        return loop.saved_share > 0.6 and "backward" in loop.saved_by

    assert in_some_recording(training(rows), saves_most)
