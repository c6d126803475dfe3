"""Programs with one fault each, at the line with its mark, and programs like them without it."""

from __future__ import annotations

import json

import torch
from tests.support.advised_networks import (
    head_of_a_frozen_network_tuned,
    head_tuned,
    layers_of_all_requests,
    layers_of_each_request,
)
from torch.utils.checkpoint import checkpoint

TABLE = torch.rand(40, 40)
TURNED = torch.rand(600, 700).t()
ROWS = torch.rand(800, 20)
TEXT = json.dumps([[i, i / 2, str(i)] for i in range(8_000)])
SMALL = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Tanh())
WIDE = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
DATA = torch.rand(512, 256)


def elements():
    result = torch.empty_like(TABLE)
    for i in range(40):
        for j in range(40):
            result[i, j] = TABLE[i, j] * 2  # elements


def whole():
    TABLE * 2


def rows():
    for row in ROWS:  # rows
        torch.softmax(row, 0)  # rows


def all_rows():
    torch.softmax(ROWS, 1)


def picked():
    for _ in range(4):
        boxes = [[] for _ in range(20)]
        for i in range(600):
            boxes[i % 20].append(ROWS[i * 7 % 300])  # picked
        torch.stack([torch.stack(box).sum(0) for box in boxes])


def picked_together():
    places = torch.arange(600)
    for _ in range(4):
        torch.zeros(20, 20).index_add_(0, places % 20, ROWS[places * 7 % 300])


def parsing():
    for _ in range(20):
        json.loads(TEXT)  # parsing
        DATA @ DATA.t()


def products():
    for _ in range(20):
        DATA @ DATA.t()  # products


def contiguous():
    for _ in range(20):
        TURNED.contiguous().sum()  # contiguous


def contiguous_once():
    turned = TURNED.contiguous()
    for _ in range(20):
        turned.sum()


def copies_that_are_written_to():
    for _ in range(20):
        TURNED.clone().add_(1)


def constants():
    for _ in range(20):
        torch.arange(100_000.0).sin() + DATA.sum()  # constants


def constants_once():
    angles = torch.arange(100_000.0).sin()
    for _ in range(20):
        angles + DATA.sum()


def twice():
    for _ in range(10):
        data = DATA + torch.rand(())
        WIDE(data).sum()
        WIDE(data).argmax(1)  # twice


def once():
    for _ in range(10):
        scores = WIDE(DATA + torch.rand(()))
        scores.sum()
        scores.argmax(1)


def growing():
    everything = torch.empty(0, 256)
    for _ in range(40):
        everything = torch.cat([everything, DATA])  # growing


def gathered():
    torch.cat([DATA for _ in range(40)])


def kept():
    losses = []
    for _ in range(20):
        loss = WIDE(DATA).sum()
        losses.append(loss)  # kept
    return losses


def kept_as_numbers():
    losses = []
    for _ in range(20):
        losses.append(WIDE(DATA).sum().detach())
    return losses


def kept_of_validations(losses=()):
    losses = [*losses]
    for _ in range(4):
        for _ in range(20):
            WIDE(DATA).sum().backward()
        for _ in range(10):
            loss = WIDE(DATA).sum()
            losses.append(loss)  # of a validation
    return losses


def validated():
    for _ in range(4):
        kept_of_validations()[-1].item()


class Probe:
    def __init__(self):
        self.seen = []

    def store(self, output):
        self.seen.append(output)  # stored

    def measure(self, output):
        self.seen.append(output.detach().mean())


def stored_by_a_probe():
    probe = Probe()
    for _ in range(20):
        probe.store(WIDE(DATA))
    return probe


def measured_by_a_probe():
    probe = Probe()
    for _ in range(20):
        probe.measure(WIDE(DATA))
    return probe


def inferring():
    for _ in range(400):
        SMALL(DATA[:8, :8])  # inferring


def inferring_without_gradients():
    with torch.inference_mode():
        for _ in range(400):
            SMALL(DATA[:8, :8])


def training():
    for _ in range(20):
        WIDE(DATA).sum().backward()


def looking_for_nan():
    with torch.autograd.set_detect_anomaly(True):  # anomaly
        training()


def double():
    factor = torch.linspace(0, 1, 256, dtype=torch.float64)
    for _ in range(10):
        torch.tanh(DATA * factor)  # double


def single():
    factor = torch.linspace(0, 1, 256)
    for _ in range(10):
        torch.tanh(DATA * factor)


TOKENS = torch.randint(3_000, (64,))
EYE = torch.eye(200) * 2


def dense_gradients():
    table = torch.nn.Embedding(30_000, 32)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        table(TOKENS).sum().backward()  # dense
        optimizer.step()


def sparse_gradients():
    table = torch.nn.Embedding(30_000, 32, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        table(TOKENS).sum().backward()
        optimizer.step()


def one_hot():
    for _ in range(5):
        torch.nn.functional.one_hot(TOKENS, 3_000).float() @ torch.rand(3_000, 8)  # one hot


def looked_up():
    for _ in range(5):
        torch.rand(3_000, 8)[TOKENS]


def inverse():
    state = torch.ones(200)
    for _ in range(10):
        state = torch.tanh(torch.linalg.inv(EYE) @ state)  # inverse


def inverses_that_differ():
    state, matrix = torch.ones(200), EYE.clone()
    for _ in range(10):
        matrix.add_(0.001)
        state = torch.tanh(torch.linalg.inv(matrix) @ state)


def inverses_gathered():
    """A benchmark."""
    torch.cat([torch.linalg.inv(EYE) for _ in range(10)]).sum()


def chosen_rows():
    state = torch.zeros(256)
    for rows in torch.arange(512).split(32):
        state = torch.tanh(state + DATA[rows].exp().sum(0))


def attention():
    query = torch.rand(2, 300, 16)
    for _ in range(5):
        weights = torch.softmax(query @ query.mT / 4, -1)  # attention
        weights @ query  # attention


def attention_in_one():
    query = torch.rand(2, 300, 16)
    for _ in range(5):
        torch.nn.functional.scaled_dot_product_attention(query, query, query)


def pairs():
    a, b = torch.rand(200, 32), torch.rand(200, 32)
    for _ in range(5):
        (a[:, None] - b).square().sum(-1)  # pairs


def products_of_pairs():
    a, b = torch.rand(200, 32), torch.rand(200, 32)
    for _ in range(5):
        torch.cdist(a, b)


class Fresh(torch.nn.Module):
    def forward(self, x):
        return torch.nn.Linear(256, 64)(x)  # fresh


def layers_made():
    for _ in range(60):
        Fresh()(DATA[:4])


def layers_kept():
    for _ in range(60):
        WIDE(DATA[:4])


AVERAGED = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(20)))


def averaging_weights():
    shadow = {name: value.clone() for name, value in AVERAGED.state_dict().items()}
    for _ in range(20):
        AVERAGED(DATA[:4, :8])
        for name, value in AVERAGED.state_dict().items():
            shadow[name] = 0.9 * shadow[name] + 0.1 * value  # averaging weights


def averaging_weights_together():
    shadow = [value.clone() for value in AVERAGED.parameters()]
    for _ in range(20):
        AVERAGED(DATA[:4, :8])
        with torch.no_grad():
            torch._foreach_lerp_(shadow, list(AVERAGED.parameters()), 0.1)


def never_detached(detach=False):
    cell, state = torch.nn.RNNCell(8, 8), torch.zeros(4, 8)
    for _ in range(40):
        state = cell(DATA[:4, :8], state.detach() if detach else state)
        state.sum().backward(retain_graph=True)  # history


def detached():
    never_detached(detach=True)


def second_order():
    weights = list(SMALL.parameters())
    for _ in range(20):
        torch.autograd.grad(SMALL(DATA[:8, :8]).sum(), weights, create_graph=True)  # graph


def penalised():
    weights = list(WIDE.parameters())
    for _ in range(20):
        grads = torch.autograd.grad(WIDE(DATA[:8]).sum(), weights, create_graph=True)
        sum(grad.square().sum() for grad in grads).backward()


def checkpointed():
    for _ in range(10):
        out = checkpoint(WIDE, DATA, use_reentrant=False)  # checkpoint
        out.sum().backward()


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


CURVED = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24))


def jacobian():
    for _ in range(4):
        x = DATA[0, :24].clone().requires_grad_()
        y = CURVED(x)
        torch.stack([torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(24)])  # row


def jacobian_at_once():
    for _ in range(24):
        torch.func.jacrev(CURVED)(DATA[0, :24])


FAULTS = [
    ("for-loop-indexing", jacobian, "row", jacobian_at_once),
    ("for-loop-indexing", means_by_mask, "masks", means_by_index),
    ("data-shuffled-again", shuffled, "shuffled", shuffled_once),
    ("data-shuffled-again", shuffled, "shuffled", in_whole_passes),
    ("partly-used-results", stacked, "stacked", sampled),
    ("partly-used-results", scores_of_all, "last", scores_of_the_last),
    ("modules-one-by-one", narrow_layers, "narrow", three_layers),
    ("repeated-copies", every_second, "strided", every_second_copied),
    ("for-loop-indexing", elements, "elements", whole),
    ("for-loop-indexing", rows, "rows", all_rows),
    ("for-loop-indexing", picked, "picked", picked_together),
    ("time-outside-torch", parsing, "parsing", products),
    ("repeated-copies", contiguous, "contiguous", contiguous_once),
    ("repeated-copies", contiguous, "contiguous", copies_that_are_written_to),
    ("repeated-constants", constants, "constants", constants_once),
    ("computed-twice", twice, "twice", once),
    ("growing-concatenation", growing, "growing", gathered),
    ("memory-that-grows", kept, "kept", kept_as_numbers),
    ("memory-that-grows", kept_of_validations, "of a validation", validated),
    ("memory-that-grows", stored_by_a_probe, "stored", measured_by_a_probe),
    ("gradients-in-inference", inferring, "inferring", inferring_without_gradients),
    ("gradients-in-inference", inferring, "inferring", training),
    ("anomaly-detection", looking_for_nan, "anomaly", training),
    ("double-precision", double, "double", single),
    ("dense-embedding-gradients", dense_gradients, "dense", sparse_gradients),
    ("one-hot-product", one_hot, "one hot", looked_up),
    ("repeated-results", inverse, "inverse", inverses_that_differ),
    ("repeated-results", inverse, "inverse", inverses_gathered),
    ("repeated-results", inverse, "inverse", chosen_rows),
    ("computed-twice", twice, "twice", chosen_rows),
    ("attention-by-hand", attention, "attention", attention_in_one),
    ("summed-broadcast", pairs, "pairs", products_of_pairs),
    ("modules-made-again", layers_made, "fresh", layers_kept),
    ("modules-made-again", layers_of_each_request, "of each request", layers_of_all_requests),
    ("gradients-never-used", head_tuned, "frozen", head_of_a_frozen_network_tuned),
    ("tensor-by-tensor", averaging_weights, "averaging weights", averaging_weights_together),
    ("graph-that-grows", never_detached, "history", detached),
    ("graph-of-gradients", second_order, "graph", penalised),
    ("recomputation", checkpointed, "checkpoint", training),
]
