#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

// The type Watch, and spawn_detached().
void bind_watch(nanobind::module_& module);
// The types StepCounter and StepAlarm.
void bind_steps(nanobind::module_& module);

}  // namespace opscope
