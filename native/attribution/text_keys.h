// Which text each event is shown under, as a number: of a name, of a name as that of a module, or of a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "columns/unfilled.h"
#include "schema/codes.h"

namespace opscope::attribution {

// Keys of names are one more than the name, those of modules come after all of these, then the one of nothing
// at all, and one more than that those of frames.
struct TextKeys {
  columns::Unfilled<int32_t> key;  // of every event
  std::vector<int32_t> used;       // each that an event has, ascending
};

struct TextColumns {
  const int32_t* name;  // below `names`, -1 for none
  const uint8_t* kind;
  const int64_t* frame;  // of those without a name, below `frames`, -1 for none; nullptr where none has one
  size_t rows;
  size_t names;
  size_t frames;
};

inline TextKeys text_keys(const TextColumns& events) {
  const auto first_module = static_cast<int32_t>(events.names) + 1;
  const int32_t nothing = 2 * first_module;
  TextKeys found{columns::Unfilled<int32_t>(events.rows), {}};
  std::vector<uint8_t> is_used(static_cast<size_t>(nothing) + events.frames + 1);
  for (size_t row = 0; row < events.rows; ++row) {
    const int32_t name = events.name[row];
    int32_t key = nothing;
    if (name >= 0) {
      const bool is_module = static_cast<EventKind>(events.kind[row]) == EventKind::kModuleCall;
      key = name + 1 + (is_module ? first_module : 0);
    } else if (events.frame != nullptr) {
      key += static_cast<int32_t>(events.frame[row]) + 1;
    }
    found.key[row] = key;
    is_used[static_cast<size_t>(key)] = 1;
  }
  for (size_t key = 0; key < is_used.size(); ++key) {
    if (is_used[key] != 0) found.used.push_back(static_cast<int32_t>(key));
  }
  return found;
}

}  // namespace opscope::attribution
