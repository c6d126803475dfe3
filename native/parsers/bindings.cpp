// Python bindings of the readers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"
#include "parsers/chrome_reader.h"
#include "parsers/plain_pickle.h"
#include "schema/codes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace readers {
namespace {

nb::object text_object(std::string_view text) {
  PyObject* const object =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass");
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

// Wraps a Python function of a text that returns an object with these attributes. Called without the GIL.
MeaningOf meaning_from(nb::object function) {
  return [function = std::move(function)](std::string_view category) -> CategoryMeaning {
    const WithGil gil;
    const nb::object text = text_object(category);
    PyObject* const answer =
        staying_if_ended([&] { return PyObject_CallOneArg(function.ptr(), text.ptr()); });
    if (answer == nullptr) throw nb::python_error();
    const nb::object meaning = nb::steal(answer);
    const auto number = [&](const char* name) { return nb::cast<int>(nb::int_(meaning.attr(name))); };
    const auto flag = [&](const char* name) { return nb::cast<bool>(meaning.attr(name)); };
    return {
        .gpu_kind = static_cast<int16_t>(number("gpu_kind")),
        .span_kind = static_cast<uint8_t>(number("span_kind")),
        .device_type = static_cast<uint8_t>(number("device_type")),
        .is_mark = flag("is_mark"),
        .is_overhead = flag("is_overhead"),
        .is_unknown = flag("is_unknown"),
        .has_counters = flag("has_counters"),
        .keeps_gpu_category = flag("keeps_gpu_category"),
        .keeps_driver_category = flag("keeps_driver_category"),
        .keeps_other_category = flag("keeps_other_category"),
    };
  };
}

Vocabulary read_vocabulary(const nb::dict& given) {
  Vocabulary vocabulary;
  for (const auto [name, code] : nb::cast<nb::dict>(given["dtypes"]))
    vocabulary.dtypes[nb::cast<std::string>(name)] = static_cast<int8_t>(nb::cast<int>(nb::int_(code)));
  for (const auto [name, kind] : nb::cast<nb::dict>(given["overheads"]))
    vocabulary.overheads[nb::cast<std::string>(name)] = nb::cast<int32_t>(nb::int_(kind));
  vocabulary.known_keys = nb::cast<std::vector<std::string>>(given["known_keys"]);
  vocabulary.beside = nb::cast<std::string>(given["beside"]);
  vocabulary.bytes = {nb::cast<int64_t>(given["least_bytes"]), nb::cast<int64_t>(given["most_bytes"])};
  vocabulary.longest_ns = nb::cast<int64_t>(given["longest_ns"]);
  return vocabulary;
}

nb::object to_object(Lists& lists) {
  return nb::make_tuple(to_array(std::move(lists.offsets)), to_array(std::move(lists.values)));
}

template <class T>
nb::object to_object(std::vector<T>& column) {
  return to_array(std::move(column));
}

template <class Columns>
nb::dict to_dict(Columns& columns) {
  nb::dict arrays;
  columns.each([&](const char* name, auto& column) { arrays[name] = to_object(column); });
  return arrays;
}

nb::list to_list(const TextRows& texts) {
  nb::list list;
  for (size_t row = 0; row < texts.size(); ++row) list.append(text_object(texts[static_cast<int32_t>(row)]));
  return list;
}

nb::list to_list(const Counts& counts) {
  nb::list list;
  for (size_t row = 0; row < counts.numbers.size(); ++row)
    list.append(nb::make_tuple(text_object(counts.texts[static_cast<int32_t>(row)]), counts.numbers[row]));
  return list;
}

nb::tuple to_tuple(const Label& label) { return nb::make_tuple(text_object(label.text), label.is_json); }

class PyChromeReader {
 public:
  PyChromeReader(const nb::dict& vocabulary, nb::object meaning, bool mends)
      : vocabulary_(read_vocabulary(vocabulary)),
        reader_(vocabulary_, meaning_from(std::move(meaning)), mends) {}

  bool add(const nb::bytes& piece) {
    const std::string_view text(piece.c_str(), piece.size());
    const WithoutGil without_gil;
    return reader_.add(text);
  }
  bool finish() {
    const WithoutGil without_gil;
    return reader_.finish();
  }

  nb::object problem() const {
    const std::optional<Problem>& found = reader_.problem();
    if (!found) return nb::none();
    nb::dict problem;
    problem["what"] = found->what;
    problem["line"] = found->line;
    problem["column"] = found->column;
    problem["is_at_end"] = found->is_at_end;
    return problem;
  }

  // Call it once: it moves the columns out.
  nb::dict take() {
    EventCollector& all = reader_.collector();
    nb::dict taken;
    taken["texts"] = to_list(all.texts);
    taken["spans"] = to_dict(all.spans);
    taken["allocations"] = to_dict(all.allocations);
    taken["gpu"] = to_dict(all.gpu);
    taken["overheads"] = to_dict(all.overheads);
    taken["flows"] = to_dict(all.flows);
    taken["tensors"] = to_dict(all.arguments.tensors);
    taken["scalars"] = to_dict(all.arguments.scalars);
    taken["launch_arrows"] = to_array(std::move(all.launch_arrows));
    nb::list threads, processes;
    for (const int32_t row : all.threads.rows()) {
      const ThreadRows::Thread& thread = all.threads.threads()[static_cast<size_t>(row)];
      threads.append(nb::make_tuple(to_tuple(thread.process), to_tuple(thread.thread),
                                    text_object(thread.name.value_or(""))));
    }
    for (const ThreadRows::Process& process : all.threads.processes())
      processes.append(
          nb::make_tuple(to_tuple(process.process), text_object(process.name), text_object(process.labels)));
    nb::list owners;
    for (const Label& owner : all.threads.owners()) owners.append(to_tuple(owner));
    taken["owners"] = owners;
    taken["categories"] = to_list(all.categories());
    taken["threads"] = threads;
    taken["processes"] = processes;
    taken["seen"] = all.seen;
    taken["marks"] = all.marks;
    taken["without_time"] = all.without_time;
    taken["without_duration"] = all.without_duration;
    taken["ends_without_beginning"] = all.ends_without_beginning;
    taken["ends_before_beginning"] = all.ends_before_beginning;
    taken["without_size"] = all.without_size;
    taken["counters"] = all.counters;
    taken["other_instants"] = all.other_instants;
    taken["other_phases"] = to_list(all.other_phases);
    taken["other_flows"] = to_list(all.other_flows);
    return taken;
  }

  bool has_events() const { return reader_.has_events(); }
  bool is_cut() const { return reader_.is_cut(); }
  int64_t mended_names() const { return reader_.mended_names(); }
  nb::object others() const { return text_object(reader_.others()); }

 private:
  Vocabulary vocabulary_;
  ChromeReader reader_;
};

class PyPlainPickle {
 public:
  using Kind = PickledValue::Kind;

  explicit PyPlainPickle(Numbers<uint8_t> bytes) : bytes_(std::move(bytes)), pickle_(read()) {}

  PickledValue root() const { return pickle_.root(); }
  PickledValue get(PickledValue dictionary, std::string_view key) const {
    return pickle_.get(dictionary, key);
  }
  std::vector<PickledValue> items(PickledValue list) const {
    const auto found = pickle_.items(list);
    return {found.begin(), found.end()};
  }
  nb::object value(PickledValue given) const {
    switch (given.kind) {
      case Kind::kTruth:
        return nb::bool_(given.number != 0);
      case Kind::kInteger:
        return nb::int_(given.number);
      case Kind::kFloat:
        return nb::float_(std::bit_cast<double>(given.number));
      case Kind::kText:
        return text(given.number);
      default:
        return nb::none();
    }
  }
  nb::object text(int64_t row) const {
    const std::string_view found = pickle_.text(row);
    PyObject* const object =
        PyUnicode_DecodeUTF8(found.data(), static_cast<Py_ssize_t>(found.size()), "backslashreplace");
    if (object == nullptr) throw nb::python_error();
    return nb::steal(object);
  }
  nb::object column(PickledValue list, std::string_view key, const std::string& kind,
                    int64_t otherwise) const {
    const Kind wanted = kind == "text" ? Kind::kText : kind == "list" ? Kind::kList : Kind::kInteger;
    return to_array(without_gil([&] { return pickle_.column(list, key, wanted, otherwise); }));
  }
  // A list by its number in a result of `column`.
  PickledValue list(int64_t row) const {
    if (!pickle_.has_list(row)) throw nb::index_error("the list does not exist");
    return {Kind::kList, row};
  }

 private:
  PlainPickle read() const {
    return without_gil([&] {
      try {
        return PlainPickle(span_of(bytes_));
      } catch (const PickleProblem& problem) {
        throw nb::value_error(problem.what());
      }
    });
  }

  Numbers<uint8_t> bytes_;
  PlainPickle pickle_;
};

}  // namespace
}  // namespace readers

void bind_parsers(nb::module_& m) {
  using readers::PyChromeReader;
  nb::class_<PyChromeReader>(m, "ChromeReader")
      .def(nb::init<const nb::dict&, nb::object, bool>(), "vocabulary"_a, "meaning_of"_a, "mends"_a)
      .def("add", &PyChromeReader::add, "piece"_a, nb::lock_self())
      .def("finish", &PyChromeReader::finish, nb::lock_self())
      .def("take", &PyChromeReader::take, nb::lock_self())
      .def_prop_ro("problem", &PyChromeReader::problem, nb::lock_self())
      .def_prop_ro("has_events", &PyChromeReader::has_events, nb::lock_self())
      .def_prop_ro("is_cut", &PyChromeReader::is_cut, nb::lock_self())
      .def_prop_ro("mended_names", &PyChromeReader::mended_names, nb::lock_self())
      .def_prop_ro("others", &PyChromeReader::others, nb::lock_self());
  nb::class_<readers::PickledValue>(m, "PickledValue");
  using readers::PyPlainPickle;
  nb::class_<PyPlainPickle>(m, "PlainPickle")
      .def(nb::init<Numbers<uint8_t>>(), "data"_a)
      .def_prop_ro("root", &PyPlainPickle::root)
      .def("get", &PyPlainPickle::get, "dictionary"_a, "key"_a)
      .def("items", &PyPlainPickle::items, "list"_a)
      .def("value", &PyPlainPickle::value, "value"_a)
      .def("text", &PyPlainPickle::text, "row"_a)
      .def("list", &PyPlainPickle::list, "row"_a)
      .def("column", &PyPlainPickle::column, "list"_a, "key"_a, "kind"_a = "integer", "otherwise"_a = -1);
}

}  // namespace opscope
