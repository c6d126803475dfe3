// Devices other than CUDA: another implementation of the source interface, with its own codes, clock and
// library. Includes and links nothing of CUPTI.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "gpu/gpu_columns.h"
#include "log/streamed_log.h"
#include "recording.h"
#include "schema/codes.h"
#include "streaming.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

constexpr int8_t kXpu = DeviceType::kXpu;
constexpr uint64_t kDeviceEpoch_ns = 5'000'000'000;

std::vector<std::string> calls;  // calls of all sources, in order
std::string refuses_to_load;
std::string refuses_to_start;
int child_before_all = -1;  // exit status

// A device that counts nanoseconds from its own epoch, one per tick of the recorder.
class XpuSource final : public gpu::DeviceSource {
 public:
  explicit XpuSource(gpu::GpuLog& log) : log_(log) { calls.push_back("made"); }

  int8_t device_type() const override { return kXpu; }
  std::string load(const std::vector<std::string>& candidates) override {
    calls.push_back("load " + candidates.front());
    return refuses_to_load;
  }
  std::string start(bool with_events, bool may_share) override {
    calls.push_back(std::string("start") + (with_events ? " events" : "") + (may_share ? " shared" : ""));
    collects = refuses_to_start.empty();
    return refuses_to_start;
  }
  void pause() override {
    calls.push_back("pause");
    collects = false;
  }
  void stop() override {
    calls.push_back("stop");
    collects = false;
  }
  void collect() override {
    std::lock_guard lock(log_.mutex());
    for (const uint32_t correlation : launched_) append(correlation);
    launched_.clear();
  }
  void forget() override { calls.push_back("forget"); }
  void set_buffer_budget(size_t bytes) override { calls.push_back("budget " + std::to_string(bytes)); }
  gpu::DeviceClock clock() override {
    return {{kDeviceEpoch_ns, 1, 0}, {2 * kDeviceEpoch_ns, 1 + kDeviceEpoch_ns, 0}};
  }
  gpu::SourceState state() override {
    return {"XPU library", "libxpu.so", 3, false, 20.0, 0, {"memory pools"}};
  }
  std::string call_name(RuntimeApi api, uint32_t function) const override {
    return (api == RuntimeApi::kRuntime ? "xpuCall" : "xpuDriverCall") + std::to_string(function);
  }

  void launch(uint32_t correlation) {
    const std::lock_guard lock(log_.mutex());
    if (collects) launched_.push_back(correlation);
  }

  bool collects = false;

 private:
  // Appends a call, and a kernel of 500 ns that begins 100 ns later.
  void append(uint32_t correlation) {
    const uint64_t now = kDeviceEpoch_ns + now_ticks() - 1;
    if (log_.accept())
      log_.calls.append() = {now, now + 50, 1234, correlation, 7, 0, RuntimeApi::kRuntime, true};
    if (!log_.accept()) return;
    gpu::Work& kernel = log_.add_work(GpuKind::kKernel, now + 100, now + 600);
    kernel.name = log_.kernel_name("xpu_gemm");
    kernel.correlation = correlation;
    kernel.device = 2;
  }

  gpu::GpuLog& log_;
  std::vector<uint32_t> launched_;
};

std::vector<std::unique_ptr<XpuSource>> sources;
XpuSource* source = nullptr;  // the newest

gpu::DeviceSource* make_source(gpu::GpuLog& log, gpu::GraphNodes&) {
  sources.push_back(std::make_unique<XpuSource>(log));
  return source = sources.back().get();
}

GpuActivity& devices() { return GpuActivity::instance(); }

// Device activity during `program`, in a window that wants devices.
DeviceColumns record(const std::function<void()>& program) {
  const uint32_t window = open_window(kWantAnnotations | kWantGpu);
  CHECK_SAME(devices().configure(recorder().wanted()), std::string());
  program();
  devices().collect();
  recorder().close_window(window);
  devices().configure(recorder().wanted());
  DeviceColumns columns = decode_gpu(devices(), *recorder().window(window));
  recorder().discard_window(window);
  devices().forget();
  return columns;
}

}  // namespace

TEST(work_has_the_device_type_of_its_source) {
  const DeviceColumns got = record([] {
    source->launch(11);
    source->launch(12);
  });
  CHECK_SAME(got.gpu.device_type, std::vector<int8_t>{kXpu, kXpu});
  CHECK_SAME(got.gpu.device_index, std::vector<int8_t>{2, 2});
  CHECK_SAME(got.names.text(got.gpu.name[0]), std::string("xpu_gemm"));
  CHECK_SAME(got.gpu.correlation_id, std::vector<int64_t>{11, 12});
  CHECK_SAME(got.gpu.call, std::vector<int32_t>{0, 1});
  CHECK_SAME(got.names.text(got.runtime_calls.name[0]), std::string("xpuCall7"));
  CHECK_SAME(got.source.library_path, std::string("libxpu.so"));
  CHECK_SAME(got.source.missing_kinds, std::vector<std::string>{"memory pools"});
}

TEST(the_source_receives_what_windows_want) {
  calls.clear();
  devices().set_source(&make_source);
  devices().configure(kWantGpu);
  devices().configure(kWantGpu);  // no change
  devices().configure(kWantGpu | kWantGpuSync, /*may_share=*/true);
  devices().pause(true);
  devices().forget();  // no effect while collecting
  devices().pause(false);
  devices().configure(0);
  devices().configure(0);
  devices().forget();
  CHECK_SAME(calls, Names{"made", "load libxpu.so", "start", "start events shared", "pause",
                          "start events shared", "stop", "forget"});
}

TEST(a_source_that_cannot_start_is_tried_again_and_leaves_nothing_on) {
  devices().set_source(&make_source);
  refuses_to_load = "no such library";
  CHECK_SAME(devices().configure(kWantGpu), std::string("no such library"));
  refuses_to_load.clear();
  refuses_to_start = "somebody else is there";
  CHECK_SAME(devices().configure(kWantGpu), std::string("somebody else is there"));
  calls.clear();
  devices().configure(0);
  CHECK_SAME(calls, Names{});
  refuses_to_start.clear();
  CHECK_SAME(record([] { source->launch(1); }).gpu.kind.size(), 1u);
}

TEST(what_finds_no_room_is_counted) {
  devices().set_budget(4096, 0);
  CHECK_SAME(calls.back(), std::string("budget 4096"));
  const DeviceColumns got = record([] { source->launch(1); });
  CHECK_SAME(got.counts.over_budget, 2u);
  CHECK_SAME(got.gpu.kind.size(), 0u);
  devices().set_budget(4096, 1u << 30);
}

// Device activity during `program`, streamed: as read from the file, and as this process decodes it.
struct BothColumns {
  std::optional<DeviceColumns> noted;
  DeviceColumns own;
};
BothColumns stream(const std::function<void()>& program, uint64_t max_bytes = kAnySize) {
  const Streaming streaming(max_bytes, kWantAnnotations | kWantGpu);
  CHECK_SAME(devices().configure(recorder().wanted()), std::string());
  program();
  devices().note(/*all=*/true);
  std::optional<DeviceColumns> noted = decode_noted(StreamedLog(streaming.path));
  recorder().close_window(streaming.window);
  devices().configure(recorder().wanted());
  DeviceColumns own = decode_gpu(devices(), *recorder().window(streaming.window));
  devices().forget();
  return {std::move(noted), std::move(own)};
}

TEST(what_devices_did_is_in_the_file_of_a_stream) {
  constexpr uint32_t kLaunches = 10'000;  // more than a note has
  const auto [noted, own] = stream([] {
    for (uint32_t i = 1; i <= kLaunches; ++i) source->launch(i);
    devices().nodes().add(71, 0);
    devices().nodes().add(72, 71);
  });
  CHECK(noted.has_value());
  const DeviceColumns& got = *noted;
  CHECK_SAME(got.gpu.correlation_id.size(), size_t{kLaunches});
  CHECK_SAME(got.gpu.correlation_id, own.gpu.correlation_id);
  CHECK_SAME(got.gpu.call, own.gpu.call);
  CHECK_SAME(got.gpu.device_type, own.gpu.device_type);
  CHECK_SAME(got.names.text(got.gpu.name.back()), std::string("xpu_gemm"));
  CHECK_SAME(got.names.text(got.runtime_calls.name[0]), std::string("xpuCall7"));
  CHECK_SAME(got.gpu_graph_nodes.node, std::vector<int64_t>{71});
  CHECK_SAME(got.gpu_graph_nodes.node, own.gpu_graph_nodes.node);
  CHECK_SAME(got.source.missing_kinds, own.source.missing_kinds);
  CHECK_SAME(got.counts.recorded, own.counts.recorded);
  CHECK(std::llabs(got.gpu.start_ns[17] - own.gpu.start_ns[17]) <
        1'000'000);  // the file's window ends at another time
  CHECK(noted->end_without_data_ns >= 0);
}

TEST(each_stream_has_notes_of_its_own_and_all_names) {
  for (int turn = 0; turn < 2; ++turn) {
    const auto noted = stream([] {
                         source->launch(1);
                         devices().note(/*all=*/false);
                         source->launch(2);
                       }).noted;
    CHECK_SAME(noted->gpu.correlation_id, std::vector<int64_t>{1, 2});
    CHECK_SAME(noted->names.text(noted->gpu.name[1]), std::string("xpu_gemm"));
  }
}

TEST(notes_after_rows_were_released_are_written_once) {
  const Streaming streaming(kAnySize, kWantAnnotations | kWantGpu);
  devices().configure(recorder().wanted());
  source->launch(1);
  devices().note(/*all=*/true);
  devices().configure(0);
  devices().forget();
  devices().configure(recorder().wanted());
  source->launch(2);
  devices().note(/*all=*/true);
  devices().note(/*all=*/true);
  CHECK_SAME(decode_noted(StreamedLog(streaming.path))->gpu.correlation_id, std::vector<int64_t>{1, 2});
  devices().configure(0);
  devices().forget();
}

TEST(records_without_room_in_the_file_are_lost_and_the_rest_is_read) {
  const auto [noted, own] = stream(
      [] {
        source->launch(1);
        devices().note(/*all=*/true);
        for (uint32_t i = 2; i <= 20'000; ++i) source->launch(i);
      },
      uint64_t{1} << 20);
  CHECK_SAME(own.gpu.correlation_id.size(), 20'000u);
  CHECK(noted.has_value());
  CHECK(!noted->gpu.correlation_id.empty());
  CHECK(noted->gpu.correlation_id.size() < 20'000);
  CHECK(noted->end_without_data_ns > 0);
}

TEST(of_notes_that_did_not_all_reach_the_disk_those_before_are_read) {
  const std::string path = new_path();
  std::string copy;
  {
    const Streaming streaming(kAnySize, kWantAnnotations | kWantGpu);
    devices().configure(recorder().wanted());
    source->launch(1);
    devices().note(/*all=*/true);
    for (uint32_t i = 2; i <= 10'000; ++i) source->launch(i);
    devices().note(/*all=*/true);
    copy = read_file(streaming.path);
    devices().configure(0);
    devices().forget();
  }
  std::vector<size_t> blocks;  // of notes
  for (size_t at = 0; at < copy.size(); at += kBlockBytes) {
    const auto& block = *reinterpret_cast<const BlockHeader*>(copy.data() + at);
    if (block.kind.load() == BlockKind::kJournal && block.owner == Stream::kDevices) blocks.push_back(at);
  }
  CHECK(blocks.size() > 8);
  const auto read_without = [&](size_t from, size_t bytes) {
    std::string damaged = copy;
    damaged.replace(from, bytes, bytes, '\0');
    std::ofstream(path, std::ios::binary) << damaged;
    const StreamedLog log(path);
    return std::make_pair(log.missing_blocks(), decode_noted(log));
  };
  const auto [missing, got] = read_without(blocks[5], kBlockBytes);
  CHECK_SAME(missing, uint64_t{blocks.size() - 6});  // blocks after it
  CHECK(got.has_value());
  CHECK(!got->gpu.correlation_id.empty() && got->gpu.correlation_id.size() < 10'000);
  CHECK(got->end_without_data_ns > 0);
  CHECK(!read_without(blocks[0], kBlockBytes).second.has_value());
  constexpr size_t kPage = 4096;
  for (const size_t at : blocks) read_without(at + kPage, kPage);
  unlink(path.c_str());
}

TEST(a_ring_has_no_devices_in_its_file) {
  const uint32_t window = recorder().reserve_window();
  const std::string path = new_path();
  recorder().begin_stream(window, path, kAnySize, "{}", /*is_ring=*/true);
  recorder().open_window(kWantAnnotations | kWantGpu, true, window);
  devices().configure(recorder().wanted());
  source->launch(1);
  devices().note(/*all=*/true);
  CHECK(!decode_noted(StreamedLog(path)).has_value());
  devices().collect();
  recorder().close_window(window);
  recorder().end_stream(window);
  recorder().discard_window(window);
  devices().configure(0);
  devices().forget();
  unlink(path.c_str());
}

TEST(notes_are_taken_beside_launches_and_streams) {
  std::atomic<bool> continues{true};
  std::thread notes([&] {
    while (continues) devices().note(/*all=*/false);
  });
  for (int turn = 0; turn < 20; ++turn) {
    const auto noted = stream([] {
                         for (uint32_t i = 1; i <= 100; ++i) source->launch(i);
                       }).noted;
    CHECK_SAME(noted->gpu.correlation_id.size(), 100u);
  }
  continues = false;
  notes.join();
}

TEST(once_the_process_ends_only_who_stops_a_recording_notes) {
  const auto noted = stream([] {
                       devices().stop_notes();
                       source->launch(1);
                       devices().note(/*all=*/false);
                     }).noted;
  CHECK_SAME(noted->gpu.correlation_id, std::vector<int64_t>{1});
}

TEST(a_forked_child_of_a_process_that_had_the_library_leaves_it_alone) {
  devices().configure(kWantGpu);
  const XpuSource* const parents = source;
  const pid_t child = fork();
  if (child == 0) {
    const bool is_new = source != parents && !source->collects;
    calls.clear();
    _exit(is_new && !devices().configure(kWantGpu).empty() && calls.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(source == parents && source->collects);
  devices().configure(0);
}

// Forked before the process loads the library, as launchers of workers do.
TEST(a_forked_child_of_a_process_without_the_library_has_one_of_its_own) { CHECK_SAME(child_before_all, 0); }

int main(int, char** argv) {
  devices().set_candidates({"libxpu.so"});
  devices().set_source(&make_source);
  const XpuSource* const parents = source;
  if (const pid_t child = fork(); child == 0) {
    const bool is_new = source != parents && !source->collects;
    _exit(is_new && devices().configure(kWantGpu).empty() && source->collects ? 0 : 1);
  } else {
    waitpid(child, &child_before_all, 0);
  }
  program = argv[0];
  return opscope::tests::run_all();
}
