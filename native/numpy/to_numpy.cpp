#include "numpy/to_numpy.h"

namespace opscope {

namespace nb = nanobind;

nb::object array_of(void* data, size_t size, nb::dlpack::dtype dtype, void* owner,
                    void (*drop)(void*) noexcept) {
  const nb::capsule kept(owner, drop);
  return nb::cast(nb::ndarray<nb::numpy>(data, {size}, kept, {}, dtype));
}

nb::object to_array(FlagColumn&& column) {
  return to_array(static_cast<std::vector<uint8_t>&&>(column)).attr("view")("bool");
}

nb::object to_array(ListColumn&& column) { return array_tuple(column.offsets, column.values); }

nb::dict to_arrays(const AnyTable& table) {
  check_lengths(table);
  nb::dict arrays;
  for (const AnyColumn& column : table) {
    column.as_itself([&](auto& itself) {
      if (!column.may_lack || rows_of(itself) != 0) arrays[column.name] = to_array(std::move(itself));
    });
  }
  return arrays;
}

}  // namespace opscope
