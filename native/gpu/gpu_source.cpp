// Device activity among the sources that windows tell what they want.
#include "gpu/gpu_activity.h"
#include "log/core_api.h"
#include "log/source.h"

namespace opscope {

namespace {

// What is collected changes at configure_gpu() alone: starting may have to be refused with a reason, and a
// window that closes may have launched work that still runs.
class DeviceWork final : public Source {
 public:
  void configure(uint32_t /*also*/) override {}
  void discard_window() override {
    if ((Recorder::instance().wanted() & kWantGpu) == 0) GpuActivity::instance().configure(0);
  }
  void forget() override { GpuActivity::instance().forget(); }
};

const ListedSource listed_devices(3, []() -> Source& {
  static auto* source = new DeviceWork;
  return *source;
});

}  // namespace

}  // namespace opscope
