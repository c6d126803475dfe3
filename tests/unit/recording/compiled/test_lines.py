"""Which lines calls in generated code are for: as noted, or as the cache has kept them."""

from opscope.columns.codes import OriginsKnownFrom
from opscope.recording.compiled.code_generation import Emitted
from opscope.recording.compiled.generated_code import Site
from opscope.recording.compiled.lines import placed_sites
from opscope.recording.compiled.origin import Origin

KERNEL = Site(20, "cpp_fused_relu_0", True)
PRODUCT = Site(24, "extern_kernels.mm", False, ("mm",), ("aten.mm",), 0)


def stack(line):
    return f'  File "{__file__}", line {line}, in forward\n'


def lines_of(placed):
    return [[origin.line for origin in one.origins] for one in placed]


def test_what_was_noted_is_exact():
    emitted = Emitted([("cpp_fused_relu_0", (Origin("relu", line=7),))], [(Origin("mm", line=8),)])
    placed = placed_sites([KERNEL, PRODUCT], [(1, stack(99))], emitted)
    assert lines_of(placed) == [[7], [8]]
    assert {one.known_from for one in placed} == {OriginsKnownFrom.GENERATION}


def test_a_kernel_that_is_used_again_has_the_lines_of_each_use():
    again = Site(30, "cpp_fused_relu_0", True)
    kernels = [("cpp_fused_relu_0", (Origin("a", line=n),)) for n in (7, 9)]
    assert lines_of(placed_sites([KERNEL, again], [], Emitted(kernels))) == [[7], [9]]


def test_the_node_that_comes_next_is_not_of_the_kernel_before_it():
    table = [(10, stack(7)), (18, stack(8))]
    assert lines_of(placed_sites([KERNEL, PRODUCT], table, None)) == [[7], [8]]


def test_the_last_kernel_has_all_nodes_since_the_call_before():
    last = Site(30, "cpp_fused_add_1", True)
    table = [(10, stack(7)), (26, stack(8)), (28, stack(9))]
    assert lines_of(placed_sites([PRODUCT, last], table, None)) == [[7], [8, 9]]


def test_a_graph_in_cpp_has_the_lines_of_all_that_is_in_it():
    whole = Site(9, "f", True, is_graph=True)
    emitted = Emitted([("cpp_0", (Origin("a", line=7),))], [(Origin("b", line=8),)])
    assert lines_of(placed_sites([whole], [], emitted)) == [[7, 8]]
    assert lines_of(placed_sites([whole], [(3, stack(7)), (90, stack(8))], None)) == [[7, 8]]


def test_comments_say_operators_where_no_line_is_kept():
    (placed,) = placed_sites([PRODUCT], [], None)
    assert placed.origins == (Origin("mm", "aten.mm"),)
    assert placed.known_from is OriginsKnownFrom.CACHE


def test_nothing_is_said_of_what_nothing_is_known_of():
    (placed,) = placed_sites([Site(3, "helper", False)], [], None)
    assert (placed.origins, placed.known_from) == ((), OriginsKnownFrom.NOTHING)
