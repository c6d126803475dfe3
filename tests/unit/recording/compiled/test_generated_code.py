"""What inductor generates: which lines call something, and for which lines of the program."""

from opscope.columns.codes import OriginsKnownFrom
from opscope.recording.compiled.generated_code import (
    Emitted,
    Site,
    graph_name,
    operators_in_name,
    placed_sites,
    sites_in,
)
from opscope.recording.compiled.origin import Origin

SOURCE = """# AOT ID: ['3_forward']
cpp_fused_add_0 = async_compile.cpp_pybinding([], '')
async_compile.wait(globals())

class Runner:
    def call(self, args):
        x, = args
        args.clear()
        assert_size_stride(x, (4, 4), (4, 1), 'input')
        buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)
        # Topologically Sorted Source Nodes: [y, z], Original ATen: [aten.t, aten.mm]
        extern_kernels.mm(x, reinterpret_tensor(x, (4, 4), (1, 4), 0), out=buf0)
        cpp_fused_add_0(buf0, x)
        # Topologically Sorted Source Nodes: [w], Original ATen: [aten.relu]
        # [Provenance debug handles] triton_poi_fused_relu_1:7
        stream0 = get_raw_stream(0)
        triton_poi_fused_relu_1.run(buf0, 16, stream=stream0)
        return (buf0, )

def get_args():
    return [rand_strided((4, 4), (4, 1))]
"""


def test_calls_of_kernels_and_operators_have_their_line_and_what_the_comment_above_says():
    product, kernel, triton = sites_in(SOURCE)
    assert (product.callee, product.is_cpp) == ("extern_kernels.mm", False)
    assert (kernel.callee, kernel.is_cpp) == ("cpp_fused_add_0", True)
    assert (triton.callee, triton.is_cpp) == ("triton_poi_fused_relu_1", False)
    assert all(site.callee in SOURCE.splitlines()[site.line - 1] for site in sites_in(SOURCE))
    assert (product.nodes, product.operators) == (("y", "z"), ("aten.t", "aten.mm"))
    assert (product.comment, kernel.comment) == (0, -1)
    assert (kernel.nodes, kernel.operators) == ((), ())
    assert (graph_name(SOURCE), graph_name("import torch")) == ("3_forward", "")


def test_a_graph_in_cpp_is_one_call():
    source = """
def _wrap_func(f):
    def g(args):
        handles = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(args)
        results = f(handles)
        return torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(results)
    return g
"""
    (site,) = sites_in(source)
    assert (site.line, site.is_graph, site.is_cpp) == (5, True, True)


def test_a_file_that_is_no_python_has_no_calls():
    assert sites_in("#include <x>\nint main() {") == []


def test_names_of_kernels_say_operators():
    assert operators_in_name("cpp_fused_add_relu_3") == ("add_relu",)
    assert operators_in_name("triton_poi_fused_mul_0") == ("mul",)
    assert operators_in_name("cpp_fused_1") == ()


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
