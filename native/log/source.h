// Sources: each hooks the program while windows want it; native part of a row of recording/sources.py.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <vector>

#include "log/recorder.h"

namespace opscope {

// Whether `name` is a default name: `prefix` and a number in canonical form.
inline bool number_in_name(std::string_view name, std::string_view prefix, uint32_t* number) {
  if (!name.starts_with(prefix)) return false;
  const std::string_view digits = name.substr(prefix.size());
  const char* const end = digits.data() + digits.size();
  const auto [read_to, error] = std::from_chars(digits.data(), end, *number);
  return error == std::errc() && read_to == end && (digits.size() == 1 || digits[0] != '0');
}

// [GIL] Everything here. No garbage collection runs while a window opens, closes, pauses or is discarded.
class Source {
 public:
  // Enables exactly the events that open windows want, and those of a window about to open (`also`).
  virtual void configure(uint32_t also) = 0;
  // A window has opened. The source adds its running spans to `running`, by thread.
  virtual void begin_window(Window& /*window*/, std::vector<InitialStack>& /*running*/) {}
  // A window is about to close.
  virtual void before_end(const Window& /*window*/) {}
  // A window has closed; its events may still be enabled.
  virtual void end_window(Window& /*window*/) {}
  // A window continues after a pause, or collects more than before.
  virtual void resume_window(const Window& /*window*/) {}
  // These wants are no longer collected, although windows that want them are still open.
  virtual void cease(uint32_t /*wants*/) {}
  // A window was discarded; others may be open or kept.
  virtual void discard_window() {}
  // No window needs the source's tables any more.
  virtual void forget() {}

 protected:
  ~Source() = default;
};

// A variable of this type adds a source to the list when the library is loaded.
class ListedSource {
 public:
  // Sorted by `place`: a source may use what sources before it noted in a window.
  ListedSource(int place, Source& (*source)()) : source_(source), place_(place) {
    ListedSource** at = &first_;
    while (*at != nullptr && (*at)->place_ <= place) at = &(*at)->next_;
    next_ = *at;
    *at = this;
  }
  ListedSource(const ListedSource&) = delete;
  ListedSource& operator=(const ListedSource&) = delete;

  template <typename Function>
  static void for_each(Function&& function) {
    for (const ListedSource* listed = first_; listed != nullptr; listed = listed->next_)
      function(listed->source_());
  }

 private:
  static inline ListedSource* first_ = nullptr;
  Source& (*source_)();
  int place_;
  ListedSource* next_ = nullptr;
};

}  // namespace opscope
