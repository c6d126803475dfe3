#include "gpu/bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "decode/identity.h"
#include "decode/pieces.h"
#include "decode/window_clock.h"
#include "interpreter/without_gil.h"
#include "log/bytes.h"
#include "log/log_copy.h"
#include "log/recorder.h"
#include "log/streamed_log.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"
#include "streams/decoded_dict.h"

namespace opscope {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

[[noreturn]] void raise_os_error(const std::system_error& error, const std::string& path) {
  const nb::object described = nb::make_tuple(error.code().value(), error.code().message(), path);
  PyErr_SetObject(PyExc_OSError, described.ptr());
  throw nb::python_error();
}

void begin_stream(uint32_t window, const std::string& path, uint64_t max_bytes, const std::string& about,
                  bool is_ring) {
  try {
    const WithoutGil without_gil;  // making the file takes milliseconds
    Recorder::instance().begin_stream(window, path, max_bytes, about, is_ring);
  } catch (const std::system_error& error) {
    raise_os_error(error, path);
  }
}

std::unique_ptr<StreamedLog> read_stream(const std::string& path) {
  try {
    const WithoutGil without_gil;
    return std::make_unique<StreamedLog>(path);
  } catch (const std::system_error& error) {
    raise_os_error(error, path);
  }
}

nb::dict decode_stream(const StreamedLog& log, const std::vector<std::string>& prefixes) {
  nb::dict result = decode_view(log.view(), prefixes);
  decode_noted_into(result, log);
  return result;
}

// Returns 0 or an errno.
int write_copy(const StreamedLog& log, int file) {
  const WithoutGil without_gil;
  return write_log(log.view(), [file](std::string_view bytes) { return write_bytes(file, bytes); });
}

// Reads from a file that may be damaged.
template <size_t kSize>
std::string text_of(const char (&field)[kSize]) {
  std::string text(field, strnlen(field, kSize));
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) > 127; }, '?');
  return text;
}

nb::dict describe_stream(const StreamedLog& log) {
  const StreamHeader& header = log.header();
  const WindowFacts& window = log.view().window;
  const WindowClock clock(log.view().origin, window.started, window.stopped, log.view().recent_rate);
  const auto time = [&](uint64_t ticks) {
    return ticks == 0 ? nb::object(nb::none()) : nb::cast(clock.unix_ns(ticks));
  };
  nb::dict result;
  result["has_end"] = log.has_end();
  result["missing_blocks"] = log.missing_blocks();
  result["process_id"] = header.process_id;
  result["identity"] = text_of(header.identity);
  result["first_loss_ns"] = time(log.first_loss());
  result["last_loss_ns"] = time(log.last_loss());
  nb::list gaps;
  for (const Gap& gap : log.gaps()) gaps.append(nb::make_tuple(time(gap.first), time(gap.last), gap.lost));
  result["gaps"] = gaps;
  result["ring_ended"] = header.ring == RingState::kEnded;
  result["started_ns"] = window.started.unix_ns;
  result["stopped_ns"] = window.stopped.unix_ns;
  return result;
}

// Decodes a recording that moves to segments piece by piece, in any process. The state between two pieces can
// be kept as bytes.
class PieceDecoder {
 public:
  PieceDecoder(std::string path, std::vector<std::string> prefixes)
      : path_(std::move(path)), prefixes_(std::move(prefixes)) {}

  // Restores `state` and names of the last kept piece.
  void restore(const nb::bytes& state, std::vector<int64_t> offsets, const nb::bytes& text) {
    const std::string_view blob(text.c_str(), text.size());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      const int64_t begin = offsets[i], end = offsets[i + 1];
      require(begin >= 0 && begin <= end && static_cast<size_t>(end) <= blob.size(),
              "a name of its segments lies outside their text");
      state_.names.add(blob.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    }
    state_.restore({state.c_str(), state.size()});
  }

  nb::bytes state() const {
    const std::string bytes = state_.bytes();
    return nb::bytes(bytes.data(), bytes.size());
  }

  // Decodes the next piece: about `records` records older than `margin_ns`; all if `is_last`. None if there
  // are fewer. The data stays open until the next call.
  nb::object decode(uint64_t records, int64_t margin_ns, bool is_last) {
    Columns columns;
    uint64_t until = 0;
    {
      const WithoutGil without_gil;
      if (!is_last || log_ == nullptr) open();
      log_->narrow(state_.drained(), kLookahead * records);
      until = end_of_piece(records, margin_ns, is_last);
      if (until != 0) {
        Piece piece(state_, log_->view(), until);
        columns = decode_piece(log_->view(), prefixes_, piece);
      }
    }
    if (until == 0) return nb::none();
    nb::object late = to_late(columns.late);
    nb::dict result = to_dict(std::move(columns), log_->view().window);
    result["devices"] = nb::none();
    result["late"] = late;
    result["missing_blocks"] = log_->missing_blocks();
    result["is_last"] = until == UINT64_MAX;
    return result;
  }

  // Frees the memory of the decoded pieces, which are saved elsewhere.
  void mark_spent() {
    try {
      const WithoutGil without_gil;
      if (log_ == nullptr) open();
      log_->mark_spent(state_.drained());
    } catch (const std::system_error& error) {
      raise_os_error(error, path_);
    }
  }

  void close() { log_.reset(); }

 private:
  void open() {
    log_.reset();
    log_ = std::make_unique<StreamedLog>(path_, state_.drained());
  }

  // Number of pieces read to decode one: ends may be noted later than their span.
  static constexpr uint64_t kLookahead = 4;

  // End of the piece in ticks; 0 if there is no piece.
  uint64_t end_of_piece(uint64_t records, int64_t margin_ns, bool is_last) const {
    const uint64_t moment = log_->moment_of(records);
    if (is_last) return moment;
    const LogView& view = log_->view();
    const double rate = view.recent_rate > 0 ? view.recent_rate : 1;
    const auto margin = static_cast<uint64_t>(static_cast<double>(margin_ns) / rate);
    const uint64_t latest = now_ticks() - margin;
    return moment <= latest ? moment : 0;
  }

  static nb::dict to_late(const std::vector<WrittenRow>& rows) {
    std::vector<int32_t> event;
    std::vector<int32_t> parent;
    std::vector<int64_t> duration_ns;
    FlagColumn unfinished;
    FlagColumn raised;
    FlagColumn is_async;
    for (const WrittenRow& row : rows) {
      event.push_back(row.event);
      parent.push_back(row.parent);
      duration_ns.push_back(row.duration_ns);
      unfinished.push_back(row.unfinished);
      raised.push_back(row.raised);
      is_async.push_back(row.is_async);
    }
    nb::dict late;
    late["event"] = to_array(std::move(event));
    late["parent"] = to_array(std::move(parent));
    late["duration_ns"] = to_array(std::move(duration_ns));
    late["unfinished"] = to_array(std::move(unfinished));
    late["raised"] = to_array(std::move(raised));
    late["is_async"] = to_array(std::move(is_async));
    return late;
  }

  const std::string path_;
  const std::vector<std::string> prefixes_;
  PieceState state_;
  std::unique_ptr<StreamedLog> log_;
};

nb::tuple allocation_ids(const Numbers<int64_t>& time_ns, const Numbers<uint64_t>& impl,
                         const Numbers<uint64_t>& storage, const Numbers<uint16_t>& device,
                         const Numbers<bool>& is_free) {
  const size_t rows = time_ns.size();
  check_lengths(rows, impl, storage, device, is_free);
  std::vector<int64_t> ids(rows);
  std::vector<Sighting> sightings(rows);
  for (size_t i = 0; i < rows; ++i) {
    sightings[i] = {time_ns(i), impl(i), storage(i), device(i), is_free(i), &ids[i], nullptr};
  }
  uint64_t unreported_frees = 0;
  without_gil([&] { return number_allocations(sightings, &unreported_frees); });
  return nb::make_tuple(to_array(std::move(ids)), unreported_frees);
}

}  // namespace

void bind_streams(nb::module_& m) {
  m.def("begin_stream", &begin_stream, "window"_a, "path"_a, "max_bytes"_a, "about"_a, "is_ring"_a = false);
  m.def(
      "describe_ring",
      [](const std::string& about, const std::string& note) {
        return Recorder::instance().describe_ring(about, note);
      },
      "about"_a, "note"_a);
  m.def("stream_state", [] {
    const Recorder::StreamState state = Recorder::instance().stream_state();
    return nb::make_tuple(state.path, state.is_ring, state.is_full);
  });
  m.def(
      "note_in_stream", [](const std::string& text) { Recorder::instance().note_in_stream(text); }, "text"_a);
  m.def("end_stream", [](uint32_t window) { Recorder::instance().end_stream(window); }, "window"_a);
  m.def(
      "discard_stream",
      [](const std::string& path) { Recorder::instance().pool().discard_stream(path.c_str()); }, "path"_a);
  nb::exception<NothingRecorded>(m, "NothingRecordedError", PyExc_ValueError);
  nb::class_<StreamedLog>(m, "StreamedLog")
      .def_prop_ro("about", &StreamedLog::about, nb::lock_self())
      .def_prop_ro("notes", &StreamedLog::notes, nb::lock_self())
      .def("describe", &describe_stream, nb::lock_self())
      .def("write_copy", &write_copy, "file"_a, nb::lock_self())
      .def("decode", &decode_stream, "prefixes"_a, nb::lock_self());
  m.def("read_stream", &read_stream, "path"_a);
  m.def("allocation_ids", &allocation_ids, "time_ns"_a, "impl"_a, "storage"_a, "device"_a, "is_free"_a);
  nb::class_<PieceDecoder>(m, "PieceDecoder")
      .def(nb::init<std::string, std::vector<std::string>>(), "path"_a, "prefixes"_a)
      .def("restore", &PieceDecoder::restore, "state"_a, "name_offsets"_a, "name_text"_a, nb::lock_self())
      .def("state", &PieceDecoder::state, nb::lock_self())
      .def("decode", &PieceDecoder::decode, "records"_a, "margin_ns"_a, "is_last"_a, nb::lock_self())
      .def("mark_spent", &PieceDecoder::mark_spent, nb::lock_self())
      .def("close", &PieceDecoder::close, nb::lock_self());
}

}  // namespace opscope
