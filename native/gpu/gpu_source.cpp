// Source of device activity.
#include "gpu/gpu_activity.h"
#include "log/core_api.h"
#include "log/source.h"

namespace opscope {

namespace {

// Only configure_gpu() changes what is collected: starting may fail with a reason, and work that a closed
// window launched may still run.
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
