"""A decoder with rotary positions: training steps, then generation with a cache."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=64,
        max_seq_len=64,
        attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True),
    )
)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
rows = torch.randint(0, 64, (8, 33))
for _ in range(8):
    loss = model(rows)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
print(model.generate(torch.zeros(1, 1, dtype=torch.long), 16, cache_kv=True).tolist())
