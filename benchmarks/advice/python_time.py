"""Programs whose time passes in Python, or in libraries that know nothing of torch."""

from __future__ import annotations

import copy
import gc
import io
import json
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.advice.networks import batch, in_every_step, perceptron, trainer
from benchmarks.advice.program import Variants, planted

OUTSIDE = ("time-outside-torch",)


@planted(*OUTSIDE)
def parsing_in_the_step() -> Variants:
    """The same JSON document parsed in every step."""
    text = json.dumps([{"id": i, "weights": [i * 0.5] * 20} for i in range(300)])
    return in_every_step(60, lambda: json.loads(text))  # fault


@planted(*OUTSIDE)
def normalised_in_python() -> Variants:
    """Pixels divided in a list comprehension."""
    step = trainer(perceptron())
    pixels = [[(i * j) % 255 for j in range(128)] for i in range(128)]
    whole, target = torch.tensor(pixels, dtype=torch.float32), batch()[1]

    def faulty() -> None:
        for _ in range(50):
            rows = [[value / 255.0 for value in row] for row in pixels]  # fault
            step(torch.tensor(rows), target)  # fault

    def fixed() -> None:
        for _ in range(50):
            step(whole / 255.0, target)

    return faulty, fixed


@planted(*OUTSIDE)
def sorted_by_numpy() -> Variants:
    """NumPy computes the same statistics for every step."""
    table = np.random.default_rng(0).random(60_000)
    return in_every_step(60, lambda: float(np.sort(table)[len(table) // 2]))  # fault


@planted(*OUTSIDE)
def histogram_in_python() -> Variants:
    """A loop in Python that calls nothing."""
    labels = [i * 7 % 10 for i in range(30_000)]

    def count() -> None:
        counts = [0] * 10
        for label in labels:  # fault
            counts[label] += 1  # fault

    return in_every_step(40, count)  # fault


@planted(*OUTSIDE)
def tensors_printed() -> Variants:
    """Whole tensors turned into text for a log, at a level that is not shown."""
    log, shown = logging.getLogger("benchmarks.advice"), torch.randn(20, 20)
    log.addHandler(logging.NullHandler())
    log.propagate = False
    return in_every_step(60, lambda: log.warning("batch %s", str(shown)))  # fault


@planted(*OUTSIDE)
def best_state_copied() -> Variants:
    """A deep copy of all weights after every step."""
    network = perceptron(256)
    return in_every_step(60, lambda: copy.deepcopy(network.state_dict()), network, 16)  # fault


@planted(*OUTSIDE)
def tensor_from_lists() -> Variants:
    """A batch made of nested lists in every step."""
    step, (data, target) = trainer(perceptron()), batch()
    lists = data.tolist()

    def faulty() -> None:
        for _ in range(60):
            step(torch.tensor(lists), target)  # fault

    def fixed() -> None:
        for _ in range(60):
            step(data, target)

    return faulty, fixed


@planted(*OUTSIDE)
def tensor_to_list() -> Variants:
    """A sum over what tolist() gives."""
    values = torch.rand(50_000)
    return in_every_step(60, lambda: sum(values.tolist()))  # fault


@planted(*OUTSIDE)
def waiting_for_a_service() -> Variants:
    """A slow query in every step."""
    return in_every_step(60, lambda: time.sleep(0.004))  # fault


@planted(*OUTSIDE)
def file_read_again() -> Variants:
    """The same file read in every step."""
    path = Path(tempfile.mkdtemp()) / "table.csv"
    path.write_text("".join(f"{i},{i * 2},{i * 3}\n" for i in range(2_000)))

    def read() -> list[list[int]]:
        with path.open() as file:
            return [[int(cell) for cell in line.split(",")] for line in file]  # fault

    return in_every_step(40, read)  # fault


@planted(*OUTSIDE)
def saved_after_every_step() -> Variants:
    """A checkpoint after every step."""
    network = perceptron(256)
    return in_every_step(
        40,
        lambda: torch.save(network.state_dict(), io.BytesIO()),  # fault
        network,
        16,
    )


@planted("garbage-collections", *OUTSIDE)
def collecting_in_the_step() -> Variants:
    """gc.collect() after every step."""
    kept = [{"name": str(i), "values": [i]} for i in range(5_000)]

    def collect() -> None:
        gc.collect()  # fault
        len(kept)

    return in_every_step(12, collect)


@planted("garbage-collections")
def objects_that_are_looked_through() -> Variants:
    """Many small objects live, and more are made all the time: the collector looks through all."""
    step, (data, target) = trainer(perceptron(128, 2)), batch(64, 128)

    def faulty() -> None:
        records: list[dict[str, list[int]]] = []
        for i in range(150):
            records += [{"step": [i, k]} for k in range(2_000)]  # fault
            step(data, target)

    def fixed() -> None:
        gc.freeze()
        gc.disable()
        faulty()
        gc.enable()
        gc.unfreeze()

    return faulty, fixed


@planted(*OUTSIDE)
def accuracy_in_python() -> Variants:
    """Predictions compared one by one as Python numbers."""
    network, (data, target) = perceptron(32, 1).eval(), batch(50_000, 32)

    @torch.inference_mode()
    def faulty() -> float:
        right = 0
        for _ in range(6):
            predicted = network(data).argmax(1).tolist()
            for one, other in zip(predicted, target.tolist(), strict=True):  # fault
                right += one == other  # fault
        return right / len(data)

    @torch.inference_mode()
    def fixed() -> Tensor:
        right = torch.zeros(())
        for _ in range(6):
            right = right + (network(data).argmax(1) == target).sum()
        return right / len(data)

    return faulty, fixed
