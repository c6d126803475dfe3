#include "streams/decoded_dict.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "interpreter/without_gil.h"
#include "numpy/to_numpy.h"

namespace opscope {

namespace nb = nanobind;

namespace {

// Facts of the window beside its tables.
nb::dict account(const Columns& columns, const WindowFacts& window) {
  nb::dict account;
  account["start_ns"] = columns.start_ns;
  account["end_ns"] = columns.end_ns;
  account["end_monotonic_ns"] = columns.end_monotonic_ns;
  account["clock_jumped_ns"] = columns.clock_jumped_ns;
  account["clock_set_by_ns"] = columns.clock_set_by_ns;
  account["dropped_spans"] = columns.dropped.spans;
  account["dropped_allocations"] = columns.dropped.allocations;
  account["dropped_others"] = columns.dropped.others;
  account["recorded_threads"] = columns.recorded_threads;
  account["unhooked_threads"] = window.unhooked_threads;
  account["process_threads"] = window.process_threads;
  account["unreported_frees"] = columns.unreported_frees;
  account["unknown_frees"] = window.unknown_frees;
  account["lost_spans"] = window.of_ending_threads.spans;
  account["lost_allocations"] = window.of_ending_threads.allocations;
  account["unmatched_ends"] = columns.unmatched_ends;
  account["cut_payloads"] = columns.cut_payloads;
  account["tensors_not_held"] = window.tensors_not_held;
  account["fault"] = window.fault;
  nb::list notes;
  for (const LedgerNote& note : window.notes)
    notes.append(nb::make_tuple(note.source, note.what, note.value));
  account["notes"] = notes;
  return account;
}

}  // namespace

nb::dict to_dict(Columns columns, const WindowFacts& window) {
  nb::dict result;
  result["account"] = account(columns, window);
  result["tables"] = to_tables(static_cast<RecordedTables&&>(columns));
  result["name_offsets"] = to_array(std::move(columns.names.offsets));
  result["name_text"] = nb::bytes(columns.names.blob.data(), columns.names.blob.size());
  return result;
}

nb::dict decode_view(const LogView& view, const std::vector<std::string>& prefixes) {
  Columns columns;
  {
    const WithoutGil without_gil;
    columns = decode_window(view, prefixes);
  }
  nb::dict result = to_dict(std::move(columns), view.window);
  result["devices"] = nb::none();
  return result;
}

}  // namespace opscope
