"""Programs of fields that the other modules have none of, with a mistake that is common there.

Written before anybody had looked at what is found in them; never fitted to.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.advice.networks import perceptron, repeated
from benchmarks.advice.program import Variants, planted


@planted("gradients-never-used")
def generator_not_detached() -> Variants:
    """The discriminator's step goes back through the generator, whose gradients are not used."""
    generator = nn.Sequential(
        nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)
    )
    judge = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    making = torch.optim.Adam(generator.parameters(), fused=True)
    judging = torch.optim.Adam(judge.parameters(), fused=True)
    real, loss = torch.randn(128, 64), nn.functional.binary_cross_entropy_with_logits
    one, none = torch.ones(128, 1), torch.zeros(128, 1)

    def train(detach: bool) -> None:
        for _ in range(60):
            made = generator(torch.randn(128, 32))  # fault
            judging.zero_grad()
            shown = made.detach() if detach else made
            wrong = loss(judge(real), one) + loss(judge(shown), none)
            wrong.backward(retain_graph=not detach)  # fault
            judging.step()
            making.zero_grad()
            loss(judge(generator(torch.randn(128, 32))), one).backward()
            making.step()

    return lambda: train(False), lambda: train(True)


@planted("repeated-results", "repeated-constants")
def degrees_of_every_layer() -> Variants:
    """A graph network that weighs edges by degrees, which it counts in every layer again."""
    nodes, edges = 1_500, 24_000
    start, end = torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
    features, target = torch.randn(nodes, 4), torch.randint(4, (nodes,))
    optimizer = torch.optim.Adam(layers.parameters(), fused=True)

    def weights() -> Tensor:
        one = torch.ones(edges)
        into = torch.zeros(nodes).scatter_add_(0, end, one).clamp(min=1)  # fault
        out = torch.zeros(nodes).scatter_add_(0, start, one).clamp(min=1)  # fault
        return (into[end] * out[start]).rsqrt()[:, None]  # fault

    def train(known: Tensor | None) -> None:
        for _ in range(40):
            state = features
            for layer in layers:
                weight = weights() if known is None else known  # fault
                sent = layer(state).index_select(0, start) * weight
                state = torch.zeros(nodes, 4).index_add(0, end, sent).relu()
            optimizer.zero_grad()
            nn.functional.cross_entropy(state, target).backward()
            optimizer.step()

    return lambda: train(None), lambda: train(weights())


@planted("for-loop-indexing", "modules-one-by-one", "many-small-operators")
def words_through_an_lstm_one_by_one() -> Variants:
    """Words of texts looked up in a vocabulary once, and given to an LSTM one after the other."""
    texts = [[f"word{(i * 7 + j * 13) % 997}" for j in range(48)] for i in range(32)]
    vocabulary = {word: i for i, word in enumerate(sorted({w for text in texts for w in text}))}
    tokens = torch.tensor([[vocabulary[word] for word in text] for text in texts])
    table, lstm = nn.Embedding(len(vocabulary), 32), nn.LSTM(32, 64, batch_first=True)
    head, label = nn.Linear(64, 5), torch.randint(5, (32,))
    parameters = [*table.parameters(), *lstm.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1, fused=True)

    def read(one_by_one: bool) -> Tensor:
        words = table(tokens)
        if not one_by_one:
            return lstm(words)[0][:, -1]
        state, out = None, words
        for i in range(words.shape[1]):
            out, state = lstm(words[:, i : i + 1], state)  # fault
        return out[:, -1]

    def train(one_by_one: bool) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(read(one_by_one)), label).backward()
        optimizer.step()

    return repeated(12, lambda: train(True), lambda: train(False))


@planted("for-loop-indexing", "modules-one-by-one", "many-small-operators", "python-loop")
def environments_one_by_one() -> Variants:
    """A policy that computes each of 64 poles to balance, one after the other."""
    policy, count = perceptron(4, 2), 64
    optimizer = torch.optim.Adam(policy.parameters(), fused=True)
    pull = torch.randn(4, 4) * 0.1

    def act(state: Tensor) -> tuple[Tensor, Tensor]:
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        return action, choice.log_prob(action)

    def train(one_by_one: bool) -> None:
        for _ in range(4):
            states, logs, rewards = torch.zeros(count, 4), [], []
            for _ in range(8):
                if one_by_one:
                    actions, chosen = [], []
                    for state in states:
                        action, log = act(state)  # fault
                        actions.append(action)
                        chosen.append(log)
                    taken, log = torch.stack(actions), torch.stack(chosen)
                else:
                    taken, log = act(states)
                states = states + states @ pull + 0.01 * taken[:, None]
                logs.append(log)
                rewards.append(-states.norm(dim=1))
            optimizer.zero_grad()
            (-torch.stack(logs) * torch.stack(rewards).sum(0)).mean().backward()
            optimizer.step()

    return lambda: train(True), lambda: train(False)


@planted("repeated-constants", "repeated-results")
def schedule_of_every_step() -> Variants:
    """A diffusion sampler that works out its schedule, and how it embeds time, at every step."""
    network, steps = nn.Sequential(nn.Linear(96, 128), nn.SiLU(), nn.Linear(128, 32)), 200

    def schedule() -> Tensor:
        return torch.cumprod(1 - torch.linspace(1e-4, 0.02, 20_000), 0)  # fault

    @torch.inference_mode()
    def sample(known: Tensor | None) -> Tensor:
        x = torch.randn(64, 32)
        frequency = torch.exp(torch.arange(32) * -0.3)
        for step in reversed(range(steps)):
            kept = schedule() if known is None else known  # fault
            angle = frequency * step
            time = torch.cat([angle.sin(), angle.cos()]).expand(64, -1)
            noise = network(torch.cat([x, time], 1))
            now, before = kept[step * 100], kept[max(step - 1, 0) * 100]
            start = (x - (1 - now).sqrt() * noise) / now.sqrt()
            x = before.sqrt() * start + (1 - before).sqrt() * noise
        return x

    return lambda: sample(None), lambda: sample(schedule())


@planted("partly-used-results")
def sorted_for_the_best() -> Variants:
    """A recommender that sorts all scores of every user for the ten best."""
    users, items = torch.randn(64 * 30, 48), torch.randn(20_000, 48)

    @torch.inference_mode()
    def faulty() -> None:
        for some in users.split(64):
            (some @ items.T).sort(1, descending=True)[1][:, :10].tolist()  # fault

    @torch.inference_mode()
    def fixed() -> None:
        for some in users.split(64):
            (some @ items.T).topk(10, 1)[1].tolist()

    return faulty, fixed
