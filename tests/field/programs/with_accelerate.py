"""Accelerate's loop, and its profiler around some steps."""

import torch
from accelerate import Accelerator, ProfileKwargs

torch.manual_seed(0)
handler = ProfileKwargs(
    activities=["cpu"],
    schedule_option={"wait": 1, "warmup": 1, "active": 2, "repeat": 1, "skip_first": 1},
    record_shapes=True,
    on_trace_ready=lambda profile: print(
        sum(row.count for row in profile.key_averages() if row.key == "aten::addmm")
    ),
)
accelerator = Accelerator(cpu=True, kwargs_handlers=[handler], gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
data = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), 0.05), torch.utils.data.DataLoader(data, 32)
)
with accelerator.profile() as profile:
    for batch, wanted in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(batch), wanted)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        profile.step()
        print(loss.item())
