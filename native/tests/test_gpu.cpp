// Device activity with the fake CUPTI of tests/support; the first argument is its path. With a second
// argument, it rejects opscope's clock.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "cupti/cupti_source.h"
#include "gpu/gpu_activity.h"
#include "gpu/gpu_columns.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

void* library = nullptr;
std::string library_path;
bool converted = false;  // CUPTI keeps its own clock

template <typename F>
F* function(const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

void set(const char* name, int value = 1) { function<void(const char*, int)>("fake_set")(name, value); }
uint32_t launch(const char* name, uint32_t stream = 7, uint64_t duration = 1000) {
  return function<uint32_t(const char*, uint32_t, uint32_t, uint64_t)>("fake_launch")(name, 0, stream,
                                                                                      duration);
}
size_t count(const char* what) { return function<size_t(const char*)>("fake_count")(what); }

GpuActivity& gpu_activity() { return GpuActivity::instance(); }

struct Recorded {
  std::string refused;
  DeviceColumns columns;
};

// Runs `program` in a window that wants device activity.
Recorded record(const std::function<void()>& program, const std::function<void()>& before_leaving = [] {}) {
  Recorder& recorder = Recorder::instance();
  gpu_activity().set_candidates({library_path});
  Recorded result;
  if (converted) set("no_timestamp_callback");
  const uint32_t id = recorder.open_window(kWantAnnotations | kWantGpu | kWantGpuSync, true);
  result.refused = gpu_activity().configure(recorder.wanted());
  program();
  recorder.close_window(id);
  before_leaving();
  gpu_activity().configure(recorder.wanted());
  CHECK_SAME(count("held buffers"), 0u);
  gpu_activity().collect();
  result.columns = decode_gpu(gpu_activity(), *recorder.window(id));
  recorder.discard_window(id);
  gpu_activity().forget();
  function<void()>("fake_reset")();
  return result;
}

}  // namespace

TEST(buffers_may_come_in_any_order_and_late) {
  const DeviceColumns got =
      record(
          [] {
            set("out_of_order");
            set("records_per_buffer", 20);  // several buffers, but fewer than there are: drops nothing
            set("late");
            for (int i = 0; i < 100; ++i) launch("k", 7 + i % 3);
          },
          [] { function<void()>("fake_finish")(); })
          .columns;
  CHECK_SAME(got.gpu.start_ns.size(), 100u);
  CHECK_SAME(got.runtime_calls.start_ns.size(), 100u);
  CHECK(std::is_sorted(got.gpu.start_ns.begin(), got.gpu.start_ns.end()));
  CHECK(std::is_sorted(got.runtime_calls.start_ns.begin(), got.runtime_calls.start_ns.end()));
  CHECK_SAME(got.counts.recorded, 200u);
  for (size_t row = 0; row < 100; ++row) {
    CHECK_SAME(got.runtime_calls.correlation_id[static_cast<size_t>(got.gpu.call[row])],
               got.gpu.correlation_id[row]);
  }
}

TEST(a_device_clock_is_a_line_that_can_be_inverted) {
  const gpu::DeviceClock clock({1'000'000, 5'000, 10}, {2'000'000, 2'005'000, 10});
  CHECK_SAME(clock.ticks(1'500'000), 1'005'000u);
  CHECK_SAME(clock.device_ns(1'005'000), 1'500'000u);
  CHECK_SAME(static_cast<int64_t>(clock.ticks(500'000)), 5'000 - 1'000'000);
}

TEST(collecting_while_other_threads_launch) {
  std::vector<std::thread> threads;
  const DeviceColumns got = record([&] {
                              set("records_per_buffer", 200);
                              for (int t = 0; t < 3; ++t) {
                                threads.emplace_back([t] {
                                  for (int i = 0; i < 300; ++i) launch("k", static_cast<uint32_t>(10 + t));
                                });
                              }
                              gpu_activity().collect();
                              for (std::thread& thread : threads) thread.join();
                            }).columns;
  CHECK_SAME(got.gpu.start_ns.size(), 900u);
  CHECK_SAME(got.counts.recorded, 1800u);
}

int main(int count, char** arguments) {
  library_path = arguments[1];
  gpu_activity().set_source(&cupti::make_cupti_source);
  converted = count > 2;
  library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  return opscope::tests::run_all();
}
