"""Dictionaries of tensors, through modules and memory-mapped files."""

import tempfile

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"a": torch.randn(64, 4), "nested": {"b": torch.rand(64, 3)}}, batch_size=[64])
first = TensorDictModule(torch.nn.Linear(4, 3), in_keys=["a"], out_keys=["hidden"])
second = TensorDictModule(torch.add, in_keys=["hidden", ("nested", "b")], out_keys=["sum"])
both = TensorDictSequential(first, second)
optimizer = torch.optim.Adam(both.parameters())
for _ in range(20):
    optimizer.zero_grad()
    loss = both(data.clone())["sum"].square().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
with tempfile.TemporaryDirectory() as folder:
    data.memmap_(folder)
    print(TensorDict.load_memmap(folder).sum())
