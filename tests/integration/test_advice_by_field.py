"""Findings about programs of several fields: recurrent networks, diffusion, rollouts."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.support import advice  # noqa: E402
from tests.support.advice import LEVELS, in_some_recording, is_at  # noqa: E402

LSTM, WORDS = torch.nn.LSTM(16, 32, batch_first=True), torch.rand(8, 40, 16)
STEP = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.SiLU(), torch.nn.Linear(64, 32))
KEPT = torch.linspace(0.9, 0.1, 60)


def word_by_word():
    for _ in range(4):
        state, out = None, WORDS
        for i in range(40):
            out, state = LSTM(WORDS[:, i : i + 1], state)  # word
        out.sum().backward()


def denoised(again):
    x, kept = torch.rand(64, 32), KEPT
    with torch.no_grad():
        for i in range(60):
            if again:
                kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 30_000), 0)  # schedule
            x = kept[i].sqrt() * x + (1 - kept[i]).sqrt() * STEP(x)


EDGES = torch.randint(2_000, (30_000,))


def degrees(once, weight=1):
    """Of a graph's nodes, counted for every layer."""
    known = torch.zeros(2_000).scatter_add_(0, EDGES, torch.ones(30_000)).rsqrt()
    state = torch.rand(2_000)
    for _ in range(30):
        if not once:
            added = torch.ones(30_000) if weight else torch.rand(30_000)
            known = torch.zeros(2_000).scatter_add_(0, EDGES, added).rsqrt()  # degrees
        state = torch.tanh(state * known)


def recommended(whole):
    """The best of many scores, of which the others are not looked at."""
    scores = torch.rand(16, 20_000)
    for _ in range(8):
        best = scores.sort(1, descending=True)[1]  # sorted
        (best if whole else best[:, :10]).sum().item()


def nucleus():
    """The tokens whose probabilities sum up to a limit."""
    logits = torch.rand(16, 20_000)
    for _ in range(8):
        likely = logits.sort(-1, descending=True)[0].softmax(-1)  # top-p
        (likely.cumsum(-1) < 0.9).sum(-1)


def precision_at_each_rank():
    scores, relevant = torch.rand(16, 20_000), torch.rand(16, 20_000).round()
    for _ in range(8):
        ordered = relevant.gather(-1, scores.sort(-1, descending=True)[1])
        ordered.cumsum(-1).sum(-1)


READER = torch.nn.Sequential(torch.nn.Embedding(50, 64), torch.nn.Linear(64, 256))


@torch.no_grad()
def decoded(whole):
    """Words from the best two beams, each from all words so far or from the last one alone."""
    words = torch.zeros(2, 40, dtype=torch.long)
    for _ in range(40):
        best = READER(words if whole else words[:, -1:])[:, -1, :50].argmax(-1)  # read
        words = torch.cat([words[torch.tensor([1, 0])], best[:, None]], 1)


class OnFrozen(torch.nn.Module):
    """A head on a network that is not trained."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU())
        self.body.requires_grad_(False)
        self.head = torch.nn.Linear(512, 8)

    def forward(self, data):
        features = self.body(data)  # features
        return self.head(features)


def trained_on_the_same():
    network, data = OnFrozen(), torch.rand(256, 512)
    optimizer = torch.optim.SGD(network.head.parameters(), lr=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        network(data).square().mean().backward()
        optimizer.step()


def scaled(matrix=64):
    """By the largest singular value, of which there are many."""
    for _ in range(8):
        weight = torch.rand(matrix, matrix)
        _, values, _ = torch.linalg.svd(weight)  # decomposed
        weight.div_(values[0])


def sums_that_differ():
    degrees(once=False, weight=0)


def filled_and_added_to():
    """The same is filled in every round, and then changed to what is not."""
    start = torch.rand(200_000)
    for _ in range(30):
        state = torch.zeros(200_000).copy_(start)
        state.add_(torch.rand(200_000))
        state.sum()


LOSS = torch.nn.functional.mse_loss
MAKER = torch.nn.Sequential(torch.nn.Linear(16, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
JUDGE = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
ONES, NOISE = torch.ones(64, 1), torch.rand(64, 16)


def adversaries(detached):
    making, judging = (torch.optim.SGD(one.parameters(), lr=1e-4) for one in (MAKER, JUDGE))
    for _ in range(12):
        made = MAKER(NOISE)  # generator
        shown = made.detach() if detached else made
        judging.zero_grad()
        LOSS(JUDGE(shown), 1 - ONES).backward()
        judging.step()
        making.zero_grad()
        JUDGE.requires_grad_(False)
        LOSS(JUDGE(MAKER(NOISE)), ONES).backward()
        JUDGE.requires_grad_(True)
        making.step()


def fine_tuned(frozen):
    """The optimizer has the head alone."""
    MAKER.requires_grad_(not frozen)
    optimizer = torch.optim.SGD(JUDGE.parameters(), lr=1e-4)
    for _ in range(12):
        optimizer.zero_grad()
        LOSS(JUDGE(MAKER(NOISE)), ONES).backward()  # body
        optimizer.step()
    MAKER.requires_grad_(True)


def measured_without_an_optimizer():
    for _ in range(12):
        MAKER.zero_grad()
        LOSS(MAKER(NOISE), NOISE[:, :1].expand(-1, 64)).backward()


def looked_at():
    """Gradients that are read, if by no optimizer."""
    optimizer = torch.optim.SGD(JUDGE.parameters(), lr=1e-4)
    for _ in range(12):
        optimizer.zero_grad()
        MAKER.zero_grad()
        LOSS(JUDGE(MAKER(NOISE)), ONES).backward()
        torch.nn.utils.clip_grad_norm_(MAKER.parameters(), 1.0)
        optimizer.step()


def updated_in_hooks():
    """Of the body as soon as its gradients are there, of the head when all are."""
    head = torch.optim.SGD(JUDGE.parameters(), lr=1e-4)
    own = {one: torch.optim.SGD([one], lr=1e-4) for one in MAKER.parameters()}

    def update(parameter):
        own[parameter].step()
        own[parameter].zero_grad()

    hooks = [one.register_post_accumulate_grad_hook(update) for one in own]
    for _ in range(12):
        head.zero_grad()
        LOSS(JUDGE(MAKER(NOISE)), ONES).backward()
        head.step()
    for hook in hooks:
        hook.remove()


def laid_out_otherwise():
    """Its gradient is copied before it is stored, as the parameter lies in memory."""
    weight = torch.nn.Parameter(torch.rand(256, 256))
    optimizer = torch.optim.SGD([weight, *JUDGE.parameters()], lr=1e-4)
    data = torch.rand(64, 256)
    for _ in range(12):
        optimizer.zero_grad()
        LOSS(JUDGE((data @ weight.T.contiguous())[:, :64]), ONES).backward()
        optimizer.step()


def test_a_recurrent_layer_that_gets_words_one_by_one_could_have_all():
    """It keeps their order by itself: that rounds need one another takes nothing from it."""

    def saves_most(findings):
        found = is_at("for-loop-indexing", __file__, "word")(findings)
        loop = findings["for-loop-indexing"]
        return found and loop.saved_share > 0.5 and "needs the one before" not in loop.saved_by

    assert in_some_recording(word_by_word, saves_most, LEVELS[1])


def test_what_is_written_to_memory_just_made_is_computed_again():
    here = is_at("repeated-results", __file__, "degrees")
    assert in_some_recording(lambda: degrees(once=False), here)


@pytest.mark.parametrize(
    "program",
    [lambda: degrees(once=True), sums_that_differ, filled_and_added_to],
    ids=["once", "sums that differ", "added to"],
)
def test_what_is_not_the_same_once_it_was_written_to_is_not(program):
    found = advice.findings_of(program, **advice.EVERYTHING)
    assert {"repeated-results", "repeated-constants"} <= {*found.absent}


def test_sorting_for_the_first_few_is_found():
    here = is_at("partly-used-results", __file__, "sorted")
    assert in_some_recording(lambda: recommended(whole=False), here, LEVELS[1])
    for program in (lambda: recommended(whole=True), precision_at_each_rank):
        assert "partly-used-results" in advice.findings_of(program, **LEVELS[1]).absent


@pytest.mark.parametrize(
    ("program", "finding", "mark"),
    [
        (scaled, "partly-used-results", "decomposed"),
        (trained_on_the_same, "repeated-results", "features"),
        (lambda: decoded(whole=True), "growing-concatenation", "read"),
        (nucleus, "partly-used-results", "top-p"),
    ],
    ids=["one value", "frozen", "prefix", "top-p"],
)
def test_what_is_computed_for_little_is_at_the_line_that_calls_it(program, finding, mark):
    assert in_some_recording(program, is_at(finding, __file__, mark), advice.EVERYTHING)


def test_reading_the_last_word_alone_is_not_reading_everything_again():
    found = advice.findings_of(lambda: decoded(whole=False), **advice.EVERYTHING)
    assert all(one.id != "growing-concatenation" or one.saved_share < 0.1 for one in found)


def test_a_loop_that_takes_numbers_of_a_schedule_does_not_go_over_it():
    def is_said(findings):
        first = findings.found[0]
        return first.id == "repeated-constants" and "for-loop-indexing" in findings.absent

    assert in_some_recording(lambda: denoised(again=True), is_said)


@pytest.mark.parametrize(
    ("faulty", "mark", "level"),
    [(adversaries, "generator", LEVELS[0]), (fine_tuned, "body", LEVELS[1])],
    ids=["cleared", "kept"],
)
def test_gradients_that_nothing_reads_are_found(faulty, mark, level):
    here = is_at("gradients-never-used", __file__, mark)
    assert in_some_recording(lambda: faulty(False), here, level)


@pytest.mark.parametrize(
    "program",
    [
        lambda: adversaries(detached=True),
        lambda: fine_tuned(frozen=True),
        measured_without_an_optimizer,
        looked_at,
        updated_in_hooks,
        laid_out_otherwise,
    ],
    ids=["detached", "frozen", "without optimizer", "looked at", "in hooks", "copied"],
)
def test_gradients_that_are_read_are_not(program):
    assert "gradients-never-used" in advice.findings_of(program, **LEVELS[1]).absent


def poles_one_by_one():
    states, turned = torch.rand(48, 4), torch.rand(4, 4)
    for _ in range(12):
        pushed = []
        for state in states:
            pushed.append(torch.tanh(state @ turned).sum())
        states = states + torch.stack(pushed)[:, None]


def test_parts_need_not_one_another_where_the_loop_around_needs_the_round_before():
    def is_said(findings):
        loop = findings["for-loop-indexing"]
        return loop.saved_share > 0.6 and "needs the one before" not in loop.saved_by

    assert in_some_recording(poles_one_by_one, is_said)


MANY = [torch.rand(8) for _ in range(40)]


def norms_for_a_log():
    for _ in range(10):
        norms = []
        for one in MANY:
            norms.append(one.norm())  # norm
        torch.stack(norms).max()


def test_methods_that_torch_has_in_python_are_called_by_the_loop():
    here = is_at("tensor-by-tensor", __file__, "norm")
    assert in_some_recording(norms_for_a_log, here, LEVELS[1])


REWARDS, VALUES = torch.rand(300), torch.rand(301)


def advantages_one_by_one():
    for _ in range(4):
        advantages, last = torch.zeros(300), torch.zeros(())
        for t in reversed(range(300)):
            last = 0.9 * last + REWARDS[t] + 0.9 * VALUES[t + 1] - VALUES[t]  # advantage
            advantages[t] = last


def test_a_recurrence_that_is_written_into_a_tensor_is_a_loop_over_it():
    assert in_some_recording(
        advantages_one_by_one, is_at("for-loop-indexing", __file__, "advantage")
    )


WIDE, NARROW, BACK = torch.rand(8, 512), torch.rand(512, 4), torch.rand(4, 512)


def adapted(costly):
    for _ in range(20):
        out = WIDE @ (NARROW @ BACK * 0.5) if costly else WIDE @ NARROW @ BACK * 0.5  # order
    return out


def test_the_order_of_three_matrices():
    here = is_at("costly-product-order", __file__, "order")
    assert in_some_recording(lambda: adapted(costly=True), here, LEVELS[1])
    found = advice.findings_of(lambda: adapted(costly=False), **LEVELS[1])
    assert "costly-product-order" in found.absent


TAGGER = torch.nn.ModuleList([torch.nn.GRU(32, 64, batch_first=True), torch.nn.Linear(64, 5)])
NETWORK = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(8)])


def trained_and_validated(with_gradients):
    for _ in range(6):
        NETWORK(torch.rand(4, 16)).sum().backward()
        with torch.set_grad_enabled(with_gradients):
            NETWORK(torch.rand(4, 16)).sum().item()  # validated


def test_validation_of_the_network_that_is_trained():
    here = is_at("gradients-in-inference", __file__, "validated")
    assert in_some_recording(lambda: trained_and_validated(with_gradients=True), here, LEVELS[1])
    found = advice.findings_of(lambda: trained_and_validated(with_gradients=False), **LEVELS[1])
    assert "gradients-in-inference" in found.absent


def tagged():
    recurrent, head = TAGGER
    for _ in range(6):
        head(recurrent(torch.rand(16, 20, 32))[0]).sum().backward()


def test_what_a_layer_keeps_for_its_backward_pass_is_no_result():
    assert "partly-used-results" in advice.findings_of(tagged, **LEVELS[1]).absent
