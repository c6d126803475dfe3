// Python bindings of the Perfetto writer.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "writers/perfetto.h"
#include "writers/shared_bindings.h"

using namespace nanobind::literals;

namespace opscope {
namespace writers {
namespace {

using Texts = std::vector<std::string>;

// Columns of one table, named "<table>.<column>".
PerfettoSpans read_spans(const NumpyColumns& columns, const std::string& table, std::vector<uint64_t> tracks,
                         size_t names, size_t categories, const Texts& numbers, const Texts& lists) {
  const auto at = [&](const char* column) { return table + "." + column; };
  const size_t n = columns.any<int64_t>(at("start_ns")).size;
  PerfettoSpans spans;
  spans.order = columns.indices<int32_t>(at("order"), n);
  const auto lines = columns.rows(at("lines"), tracks.size(), spans.order.size).offsets;
  spans.lines.assign(tracks.size() + 1, 0);  // if missing, no line has rows
  for (size_t i = 0; i < lines.size; ++i) spans.lines[i] = lines[i];
  spans.tracks = std::move(tracks);
  spans.name = columns.indices<int32_t>(at("name"), n, names, -1);
  spans.category = columns.indices<uint8_t>(at("category"), n, categories, 0);
  spans.start_ns = columns.get<int64_t>(at("start_ns"), n);
  spans.duration_ns = columns.get<int64_t>(at("duration_ns"), n);
  spans.unfinished = columns.optional<bool>(at("unfinished"), n);
  spans.flow_id = columns.any<uint64_t>(at("flow_id"));
  spans.flow_ends = columns.get<bool>(at("flow_ends"), spans.flow_id.size);
  spans.flow_rows = columns.rows(at("flow_rows"), n, spans.flow_id.size);
  for (const auto& name : numbers) {
    spans.numbers.push_back({name, columns.get<int64_t>(table + "." + name, n), -1});
  }
  for (const auto& name : lists) {
    spans.lists.push_back({name, columns.list(table + "." + name, n)});
  }
  return spans;
}

class PyPerfettoWriter {
 public:
  PyPerfettoWriter(nb::dict arrays, std::vector<uint64_t> event_tracks, std::vector<uint64_t> gpu_tracks,
                   std::vector<uint64_t> counter_tracks, Texts categories, Texts dtype_names,
                   const Texts& gpu_numbers, nb::bytes header, int64_t base_ns, uint32_t first_sequence)
      : columns_(std::move(arrays)) {
    PerfettoTrace trace;
    std::tie(trace.name_offsets, trace.name_bytes) = columns_.texts("names");
    trace.categories = std::move(categories);
    const size_t kinds = trace.categories.size();
    const size_t names = trace.name_offsets.empty() ? 0 : trace.name_offsets.size - 1;
    trace.spans.push_back(read_spans(columns_, "events", std::move(event_tracks), names, kinds, {}, {}));
    const size_t events = trace.spans.back().start_ns.size;
    const auto [value_offsets, value_bytes] = columns_.texts("values");
    inputs_ =
        std::make_unique<PerfettoInputs>(ChromeTensors(columns_, events), ChromeScalars(columns_, events),
                                         std::move(dtype_names), value_offsets, value_bytes);
    trace.spans.back().inputs = inputs_.get();
    trace.spans.push_back(
        read_spans(columns_, "gpu", std::move(gpu_tracks), names, kinds, gpu_numbers, {"grid", "block"}));
    for (size_t i = 0; i < counter_tracks.size(); ++i) {
      const std::string name = "counter" + std::to_string(i);
      const auto time = columns_.any<int64_t>(name + ".time_ns");
      trace.counters.push_back({counter_tracks[i], time, columns_.get<int64_t>(name + ".value", time.size)});
    }
    trace.header.assign(header.c_str(), header.size());
    trace.base_ns = base_ns;
    trace.first_sequence = first_sequence;
    writer_ = std::make_unique<PerfettoWriter>(std::move(trace));
  }

  nb::object next_block(size_t bytes) { return next_block_of(*writer_, bytes); }
  size_t rows_written() const { return writer_->rows_written(); }

 private:
  NumpyColumns columns_;
  std::unique_ptr<PerfettoInputs> inputs_;
  std::unique_ptr<PerfettoWriter> writer_;
};

}  // namespace
}  // namespace writers

void bind_perfetto(nanobind::module_& m) {
  using writers::PyPerfettoWriter;
  using writers::Texts;
  using Uuids = std::vector<uint64_t>;
  nanobind::class_<PyPerfettoWriter>(m, "PerfettoWriter")
      .def(nanobind::init<nanobind::dict, Uuids, Uuids, Uuids, Texts, Texts, Texts, nanobind::bytes, int64_t,
                          uint32_t>(),
           "columns"_a, nanobind::kw_only(), "event_tracks"_a, "gpu_tracks"_a, "counter_tracks"_a,
           "categories"_a, "dtype_names"_a, "gpu_numbers"_a, "header"_a, "base_ns"_a, "first_sequence"_a)
      .def("next_block", &PyPerfettoWriter::next_block, "size"_a)
      .def_prop_ro("rows_written", &PyPerfettoWriter::rows_written);
}

}  // namespace opscope
