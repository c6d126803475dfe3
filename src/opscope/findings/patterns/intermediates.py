"""Large temporaries that one call avoids: attention scores, and broadcasts that are summed."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text
from opscope.columns.schema import Role
from opscope.findings.backward_passes import backward_steps, steps_take_ns
from opscope.findings.pattern import TENSORS, Evidence, Pattern
from opscope.findings.patterns.matmul import HALF, PRODUCT_CALLS
from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import FLOAT_BYTES, FLOPS_A_NS, HOST, Flags, Subject
from opscope.timeline.listing import launched_work

_SCORING = (
    "aten::div", "aten::mul", "aten::add", "aten::div_", "aten::mul_", "aten::add_",
    "aten::masked_fill", "aten::masked_fill_", "aten::where", "aten::softmax", "aten::dropout",
    "aten::to",
)  # fmt: skip
"""Operators between the two products of attention."""

_OF_A_LAYER = ("aten::linear", "aten::addmm")
"""Products of layers, for example class scores; they are not attention scores."""

_DRAWING = ("aten::bernoulli_", "aten::native_dropout")

_OF_PRODUCTS = 0.85
"""Time of scaled_dot_product_attention relative to the two products.

Measured on one CPU thread, five shapes of 512 to 1,200 positions: 0.64 to 0.95, median 0.84,
because scores stay in the cache."""

_OF_KERNELS = 0.5
"""The same ratio for half-precision kernels, where only the matrix units limit fused products.

Measured in bfloat16 on an H100, 16 heads of 64 over 1,024 positions: 0.46."""

_BETWEEN = ("aten::pow", "aten::square", "aten::abs", "aten::neg", "aten::mul", "aten::exp")
_REDUCTIONS = ("aten::sum", "aten::mean", "aten::norm", "aten::linalg_vector_norm")
_TIMES_ITS_ARGUMENTS = 8


def _find_attention(subject: Subject) -> Evidence | None:
    """A product, softmax and another product, each with the scores in memory."""
    values, scoring = computed_values(subject), subject.named(*_SCORING)
    softmax = subject.named("aten::softmax")
    product = subject.named(*PRODUCT_CALLS) & ~subject.named(*_OF_A_LAYER) & subject.is_outermost
    scores = values.leads_to(product, scoring & ~softmax)
    weights = scores & softmax & subject.is_outermost
    second = values.leads_to(weights, subject.named("aten::dropout", "aten::to")) & product
    second &= ~values.leads_to(_drops_on_cpu(subject), subject.named("aten::to"))
    weights &= values.feeds(second, ~weights)
    if not second.any() or not weights.any():
        return None
    # A hand-written activation also scales a product's result, but no softmax follows.
    scaled = scores & scoring & values.feeds(weights, scoring)
    between = weights | scaled | (values.leads_to(weights, scoring) & scoring)
    between &= subject.is_outermost
    events = np.flatnonzero(between | second)
    first = values.feeds(weights | scaled, product) & product
    _, source = backward_steps(subject)
    made = np.where(source >= 0, subject.outermost_operator[source], -1)
    back_ns = int(steps_take_ns(subject)[np.append(between, False)[made]].sum())
    of_products = _OF_KERNELS if _in_half_on_device(subject, first | second) else _OF_PRODUCTS
    products_ns = int(2 * (1 - of_products) * subject.time_ns(second))
    return Evidence(
        events=events,
        explanation=(
            f"{int(weights.sum()):,} times attention was computed as a product, a softmax and a "
            "second product. Each step writes the scores, the square of the sequence length, "
            f"to memory and reads them back, {subject.share(subject.time_ns(between))} of the "
            "time."
        ),
        saved_ns=subject.with_callers_ns(np.flatnonzero(between)) + back_ns + products_ns,
        saved_by=(
            f"the operators between the products{' and their backward pass' if back_ns else ''}: a "
            "fused call computes them in the cache, and needs about "
            f"{of_products} of the products' time"
        ),
    )


def _drops_on_cpu(subject: Subject) -> Flags:
    """Outermost dropout operators on the CPU, where fused attention has no dropout."""
    drops = subject.flags(subject.outermost_operator[subject.named(*_DRAWING)])[:-1]
    device = subject.tensor_column("device_type", subject.tensor_argument(0))
    return np.asarray(drops & subject.named("aten::dropout") & (device == HOST))


def _in_half_on_device(subject: Subject, products: Flags) -> bool:
    """Whether these products run on a device, all of them in half precision."""
    tensor = subject.tensor_argument(0)[np.flatnonzero(products)]
    is_half = np.isin(subject.tensor_column("dtype", tensor), HALF)
    launch = subject.trace.table("gpu")["launch"][launched_work(subject.trace)]
    return bool((products | subject.within(products))[launch].any() and is_half.all())


def _find_broadcast(subject: Subject) -> Evidence | None:
    values, made = computed_values(subject), subject.bytes_made
    tensors = subject.trace.table("tensors")
    inputs = np.where(tensors["role"] == Role.INPUT, subject.elements[:-1], 0)
    given = FLOAT_BYTES * np.bincount(tensors["event"], inputs, len(made))
    spreading = subject.named("aten::sub", "aten::mul", "aten::add") & subject.is_outermost
    spreading &= made > _TIMES_ITS_ARGUMENTS * given
    between = subject.named(*_BETWEEN) & subject.is_outermost
    gets = values.leads_to(spreading, between)
    reducing = gets & subject.named(*_REDUCTIONS) & subject.is_outermost
    if not reducing.any():
        return None
    events = np.flatnonzero(spreading | reducing | (gets & between))
    product_ns = 2 * int(made[spreading].sum()) // FLOAT_BYTES // FLOPS_A_NS
    return Evidence(
        events=events,
        explanation=(
            f"{int(spreading.sum()):,} operators combine all elements of two tensors into a "
            f"temporary of up to {bytes_text(int(made[spreading].max()))} that is summed right "
            f"after: {subject.share(subject.time_ns(events))} of the time for writing and "
            "reading it."
        ),
        saved_ns=max(subject.with_callers_ns(events) - product_ns, 0),
        saved_by=(
            f"these operators, less a matrix product without the temporary, at {FLOPS_A_NS} "
            "operations a nanosecond"
        ),
    )


ATTENTION = Pattern(
    id="attention-by-hand",
    title="Attention does not use a fused kernel",
    advice=(
        "Call torch.nn.functional.scaled_dot_product_attention(query, key, value), with "
        "attn_mask or is_causal for a mask; with nn.MultiheadAttention pass "
        "need_weights=False."
    ),
    find=_find_attention,
    needs=TENSORS,
    worth_saying=0.02,
    link="https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
)

BROADCAST = Pattern(
    id="summed-broadcast",
    title="A large tensor of all pairs is only summed",
    advice=(
        "Use a product: torch.cdist(a, b) for distances, a @ b.T or torch.einsum for sums of "
        "products, torch.nn.functional.linear for weighted sums."
    ),
    find=_find_broadcast,
    needs=TENSORS,
    worth_saying=0.02,
)
