#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

// The type Watch, and hand_to_writer().
void bind_watch(nanobind::module_& module);
// The types StepCounter and StepAlarm.
void bind_steps(nanobind::module_& module);

}  // namespace opscope
