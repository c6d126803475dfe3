"""Training steps of a tiny U-Net on noise, then its sampling loop."""

import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
noise_scheduler = DDPMScheduler(num_train_timesteps=50)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images = torch.rand(8, 1, 16, 16)
for _ in range(6):
    noise, times = torch.randn_like(images), torch.randint(0, 50, (8,))
    noisy = noise_scheduler.add_noise(images, noise, times)
    loss = torch.nn.functional.mse_loss(model(noisy, times).sample, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
scheduler = DDIMScheduler(num_train_timesteps=50)
scheduler.set_timesteps(8)
sample = torch.randn(2, 1, 16, 16)
with torch.no_grad():
    for time in scheduler.timesteps:
        sample = scheduler.step(model(sample, time).sample, time, sample).prev_sample
print(sample.norm().item())
