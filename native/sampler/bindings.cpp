// Python bindings of the thread sampler.
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "interpreter/without_gil.h"
#include "numpy/to_numpy.h"
#include "sampler/kernel_counts.h"
#include "sampler/thread_sampler.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

void begin(uint64_t reader) {
  const WithoutGil without_gil;
  ThreadSampler::instance().begin(reader);
}

nb::object end(uint64_t reader) {
  ThreadSampleColumns rows;
  SamplerStatistics statistics;
  const bool is_known = [&] {
    const WithoutGil without_gil;
    return ThreadSampler::instance().end(reader, rows, statistics);
  }();
  if (!is_known) return nb::none();
  return nb::make_tuple(to_arrays(AnyTable(rows)), statistics.processor_ns, statistics.looks,
                        statistics.is_cut);
}

}  // namespace

void bind_sampler(nb::module_& module) {
  // The first file gets a high descriptor number, for which the kernel enlarges its table of descriptors. In
  // a process with threads this takes 10 ms, as the kernel waits until no thread uses the old table
  // (synchronize_rcu).
  module.def("prepare_thread_samples", [] {
    const WithoutGil without_gil;
    const CountedThread opened(static_cast<pid_t>(syscall(SYS_gettid)), /*keeps_open=*/true);
  });
  module.def("begin_thread_samples", &begin, "reader"_a);
  module.def("end_thread_samples", &end, "reader"_a);
  module.def("thread_sample_readers", [] { return ThreadSampler::instance().readers(); });
}

}  // namespace opscope
