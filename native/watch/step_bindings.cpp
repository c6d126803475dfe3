// Python bindings of the step counter.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "interpreter/free_threads.h"
#include "watch/step_counter.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

// Condition under which a listener is called.
struct StepAlarm {
  Shared<uint64_t> at = std::numeric_limits<int64_t>::max();
  Shared<int64_t> own_above_ns = std::numeric_limits<int64_t>::max();
  nb::callable listener;
  bool has_failed = false;  // reported once, not at every step
};

class ObservedSteps {
 public:
  explicit ObservedSteps(Watch* watch) : steps_(watch) {}

  std::shared_ptr<StepAlarm> alarm(nb::callable listener) {
    steps_.read_waits(true);
    alarms_.push_back(std::make_shared<StepAlarm>());
    alarms_.back()->listener = std::move(listener);
    return alarms_.back();
  }
  void silence() {
    steps_.read_waits(false);
    const auto released = std::exchange(alarms_, {});  // destroying listeners may call back into this object
    for (const auto& alarm : released) nb::callable listener = std::move(alarm->listener);
  }
  void announced() { notify(steps_.ended(true)); }
  // torch's optimizer hook: the first optimizer that steps makes the program's steps, until it is destroyed.
  // Native, because torch calls it at every step of every optimizer.
  void optimizer_stepped(nb::handle optimizer, const nb::args&) {
    if (steps_.is_announced()) return;
    const nb::object made = makes_steps_.is_valid() ? makes_steps_() : nb::none();
    if (made.is_none())
      makes_steps_ = nb::module_::import_("weakref").attr("ref")(optimizer);
    else if (!made.is(optimizer))
      return;
    notify(steps_.ended(false));
  }
  const StepCounter& steps() const { return steps_; }

 private:
  void notify(int64_t took_ns) {
    if (took_ns < 0) return;
    const int64_t own_ns = took_ns - std::max<int64_t>(steps_.waited_ns(), 0);
    for (size_t i = 0; i < alarms_.size(); ++i) {
      const auto alarm = alarms_[i];  // its listener may silence all
      if (alarm->at > steps_.count() && own_ns <= alarm->own_above_ns) continue;
      const nb::callable listener = alarm->listener;
      try {
        listener(took_ns);
      } catch (nb::python_error& error) {
        // Exceptions that stop the program (KeyboardInterrupt) pass through the listener.
        if (!error.matches(PyExc_Exception)) throw;
        if (!std::exchange(alarm->has_failed, true)) error.discard_as_unraisable(listener);
      }
    }
  }

  StepCounter steps_;
  std::vector<std::shared_ptr<StepAlarm>> alarms_;
  nb::object makes_steps_;  // weak reference to an optimizer
};

// A member that Python sets while another thread reads it.
template <typename Value>
void bind_shared(nb::class_<StepAlarm>& alarm, const char* name, Shared<Value> StepAlarm::* member) {
  alarm.def_prop_rw(
      name, [member](const StepAlarm& self) -> Value { return self.*member; },
      [member](StepAlarm& self, Value value) { self.*member = value; });
}

}  // namespace

void bind_steps(nb::module_& module) {
  auto alarm = nb::class_<StepAlarm>(module, "StepAlarm");
  bind_shared(alarm, "at", &StepAlarm::at);
  bind_shared(alarm, "own_above_ns", &StepAlarm::own_above_ns);
  nb::class_<ObservedSteps>(module, "StepCounter")
      .def(nb::init<Watch*>(), "watch"_a.none() = nb::none(), nb::keep_alive<1, 2>())
      .def("announced", &ObservedSteps::announced, nb::lock_self())
      .def("optimizer_stepped", &ObservedSteps::optimizer_stepped, "optimizer"_a, "arguments"_a,
           nb::lock_self())
      .def("alarm", &ObservedSteps::alarm, "listener"_a, nb::lock_self())
      .def("silence", &ObservedSteps::silence, nb::lock_self())
      .def_prop_ro(
          "count", [](const ObservedSteps& counted) { return counted.steps().count(); }, nb::lock_self())
      .def_prop_ro(
          "durations_ns", [](const ObservedSteps& counted) { return counted.steps().durations_ns(); },
          nb::lock_self())
      .def_prop_ro(
          "own_durations_ns", [](const ObservedSteps& counted) { return counted.steps().own_durations_ns(); },
          nb::lock_self())
      .def_prop_ro(
          "waited_ns",
          [](const ObservedSteps& counted) -> nb::object {
            const int64_t waited_ns = counted.steps().waited_ns();
            return waited_ns >= 0 ? nb::int_(waited_ns) : nb::object(nb::none());
          },
          nb::lock_self());
}

}  // namespace opscope
