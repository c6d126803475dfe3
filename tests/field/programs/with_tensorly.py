"""Decompositions of tensors, and a gradient through one."""

import tensorly as tl
import torch
from tensorly.decomposition import parafac, tensor_train, tucker

tl.set_backend("pytorch")
torch.manual_seed(0)
tensor = torch.rand(6, 7, 8, dtype=torch.float64)
for name, found in (
    ("parafac", tl.cp_to_tensor(parafac(tensor, 3, init="svd", n_iter_max=20))),
    ("tucker", tl.tucker_to_tensor(tucker(tensor, [3, 3, 3], n_iter_max=10))),
    ("tensor_train", tl.tt_to_tensor(tensor_train(tensor, [1, 3, 3, 1]))),
):
    print(name, round((tensor - found).norm().item(), 9))
factors = [torch.rand(size, 2, requires_grad=True) for size in (4, 5, 6)]
loss = tl.cp_to_tensor((torch.ones(2), factors)).square().sum()
loss.backward()
print(loss.item(), [factor.grad.norm().item() for factor in factors])
