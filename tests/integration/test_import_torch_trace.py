"""A Chrome JSON that torch.profiler itself wrote, imported and stored."""

import pytest

from support.loaded import load_trace

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")

STEPS = 12


def train(profiler):
    """A small training loop; every step is marked."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        with torch.profiler.record_function("forward"):
            output = model(torch.randn(8, 1, 8, 8))
            loss = torch.nn.functional.cross_entropy(output, torch.randint(0, 10, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cat([output, output])
        profiler.step()


def record(path, **options):
    with torch.profiler.record_function("first use imports modules; keep that out of the profile"):
        pass
    activities = [torch.profiler.ProfilerActivity.CPU]
    schedule = torch.profiler.schedule(wait=0, warmup=0, active=STEPS, repeat=1)
    with torch.profiler.profile(activities=activities, schedule=schedule, **options) as profiler:
        train(profiler)
    profiler.export_chrome_trace(str(path))


def test_the_folder_is_a_small_fraction_of_the_json(tmp_path):
    record(tmp_path / "trace.json", record_shapes=True)
    trace = load_trace(tmp_path / "trace.json")
    folder = trace.save(tmp_path / "t")
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size / len(trace.events) < 21
    assert size <= 0.05 * (tmp_path / "trace.json").stat().st_size
