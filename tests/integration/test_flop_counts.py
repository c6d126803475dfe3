"""Operations of recorded programs, beside torch's own counter where that is right."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from opscope.analysis.flops import count_flops
from support.recorded import names, record

ELEMENTWISE = ("aten::add", "aten::add_", "aten::mul", "aten::mul_")  # torch counts no such


def products(program):
    """Operations of everything but element-wise operators."""
    trace = record(program, record_shapes=True)
    counts = count_flops(trace).flops.tolist()
    return sum(n for n, name in zip(counts, names(trace), strict=True) if name not in ELEMENTWISE)


def train_mlp():
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        out = model(torch.randn(3, 4))
        (out + torch.cat([out, out]).sum()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def attention(backward=False, **shape):
    q = torch.randn(2, 3, 16, 8, requires_grad=backward)
    out = F.scaled_dot_product_attention(q, q, q)
    if backward:
        out.sum().backward()


def decomposed_attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        attention()


def conv_forward_and_backward(conv, x, weight, *arguments):
    x, weight = x.requires_grad_(), weight.requires_grad_()
    conv(x, weight, None, *arguments).sum().backward()


def linear_loss(weight, x):
    return F.linear(x, weight).pow(2).sum()


def checkpointed():
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = torch.randn(10, 8, requires_grad=True)
    checkpoint(layers, x, use_reentrant=False).sum().backward()


def autocast_linear():
    with torch.autocast("cpu", torch.bfloat16):
        F.linear(torch.randn(3, 4), torch.randn(5, 4))


class Wrapping(torch.Tensor):
    """A tensor that has no memory and computes with another one."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))


COUNTED = {
    "linear": lambda: F.linear(torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5)),
    "einsum": lambda: torch.einsum("bij,bjk->bik", torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "baddbmm": lambda: torch.baddbmm(
        torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    ),
    "conv2d_strided_grouped": lambda: F.conv2d(
        torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 3), None, (2, 1), 1, 1, 2
    ),
    "conv3d_dilated": lambda: F.conv3d(
        torch.randn(2, 4, 5, 6, 7), torch.randn(6, 4, 3, 3, 3), None, 1, (0, 1, 0), (1, 2, 1)
    ),
    "conv_transpose3d": lambda: F.conv_transpose3d(
        torch.randn(1, 2, 3, 4, 5), torch.randn(2, 3, 2, 2, 2), None, 2
    ),
    "conv2d_backward": lambda: conv_forward_and_backward(
        F.conv2d, torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 3)
    ),
    "conv_transpose2d_backward": lambda: conv_forward_and_backward(
        F.conv_transpose2d, torch.randn(2, 4, 9, 8), torch.randn(4, 6, 3, 3), 2
    ),
    "attention_decomposed": decomposed_attention,
    "vmap in vmap": lambda: torch.vmap(torch.vmap(torch.mm, (0, None)), (0, None))(
        torch.randn(5, 6, 2, 3), torch.randn(3, 7)
    ),
    "vmap of a convolution": lambda: torch.vmap(lambda x, w: F.conv2d(x, w))(
        torch.randn(7, 2, 3, 8, 8), torch.randn(7, 5, 3, 3, 3)
    ),
    "vmap of grad": lambda: torch.vmap(torch.func.grad(linear_loss), (None, 0))(
        torch.randn(4, 5), torch.randn(32, 5)
    ),
    "jvp of a convolution": lambda: torch.func.jvp(
        F.conv2d, *[(torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3))] * 2
    ),
    "jacrev": lambda: torch.func.jacrev(lambda x: torch.mm(x, x))(torch.randn(5, 5)),
    "checkpoint, stopped early": checkpointed,
    "a wrapping subclass": lambda: torch.mm(Wrapping(torch.randn(3, 4)), torch.randn(4, 5)),
    "autocast": autocast_linear,
    "recurrent": lambda: torch.nn.GRU(8, 16, 2)(torch.randn(5, 3, 8))[0].sum().backward(),
    "encoder layer": lambda: (
        torch.nn.TransformerEncoderLayer(16, 4, 32)(torch.randn(2, 10, 16)).sum().backward()
    ),
    "mlp": train_mlp,
}


@pytest.mark.parametrize("program", COUNTED.values(), ids=COUNTED)
def test_operations_agree_with_torchs_flop_counter(program):
    with FlopCounterMode(display=False) as counter:
        program()

    assert products(program) == counter.get_total_flops() > 0


@pytest.mark.parametrize("backward", [False, True])
def test_fused_attention_on_the_cpu_counts_as_its_decomposed_form_does(backward):
    # torch's own counter has no formula for the CPU kernel and says 0.
    forward = 2 * (2 * 2 * 3 * 16 * 16 * 8)

    assert products(lambda: attention(backward)) == forward + backward * (forward // 2 * 5)


def test_a_grouped_convolution_under_vmap_and_grad_counts_what_runs():
    # torch's own counter takes the groups that stand for samples for channels, and says 6 times it.
    filters, images = torch.randn(4, 3, 3, 3), torch.randn(6, 1, 3, 10, 10)
    gradients = torch.vmap(torch.func.grad(lambda w, x: F.conv2d(x, w).sum()), (None, 0))

    forward = 6 * 2 * (8 * 8) * 4 * 3 * 9

    assert products(lambda: gradients(filters, images)) == 2 * forward


def test_lstm_without_gradients_is_one_operator_with_the_products_of_all_steps():
    lstm, x = torch.nn.LSTM(8, 16), torch.randn(5, 3, 8)

    def program():
        with torch.no_grad():
            lstm(x)

    assert products(program) == 2 * (5 * 3) * (4 * 16) * (8 + 16)


@pytest.mark.parametrize(
    "sparse",
    [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc],
    ids=["coo", "csr", "csc"],
)
def test_sparse_products_are_not_taken_for_dense_ones(sparse):
    """How many elements there are is not in their shapes: nothing is said, nothing covered."""
    dense = torch.zeros(100, 1000)
    dense[0, 0] = dense[5, 7] = 1
    left, right = sparse(dense), torch.randn(1000, 20)

    trace = record(lambda: left @ right, record_shapes=True)
    counts = count_flops(trace)

    assert "aten::addmm" in names(trace) or "aten::mm" in names(trace)
    assert counts.flops.sum() <= 2 * 100 * 20  # of what is element-wise inside
    assert counts.coverage < 1
