// Module call of every event, in the forward and the backward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "columns/unfilled.h"
#include "nesting/nesting.h"
#include "schema/codes.h"
#include "schema/numbering.h"
#include "schema/table.h"

namespace opscope::attribution {

// Required columns of events, threads and names.
struct Events {
  const int32_t* parent;
  const int32_t* thread;
  const int32_t* name;
  const uint8_t* kind;
  const uint8_t* scope;
  const int64_t* sequence;
  const int32_t* forward_thread;
  size_t rows;

  EventKind kind_of(size_t row) const { return static_cast<EventKind>(kind[row]); }
  RecordScope scope_of(size_t row) const { return static_cast<RecordScope>(scope[row]); }
};

// Rows by thread and sequence number: few threads, each with mostly adjacent numbers. A hash table takes 40
// times as long (39 ms instead of 1 for a million).
class RowsByNumber {
 public:
  // Reference to the row of a thread's number, -1 for none.
  int32_t& at(int64_t thread, int64_t number) {
    if (of_thread_ == nullptr || thread != thread_) {
      thread_ = thread;
      of_thread_ = &threads_[thread];
    }
    return of_thread_->at(number);
  }

 private:
  class Numbers {
   public:
    int32_t& at(int64_t number) {
      if (close_.empty()) first_ = number - kBefore;
      const auto place = static_cast<uint64_t>(number) - static_cast<uint64_t>(first_);
      // Twice as much room as there are numbers so far; more distant numbers go to the map.
      if (place >= close_.size()) {
        if (place >= 2 * (close_.size() + kBefore)) return far_.try_emplace(number, -1).first->second;
        move_near(place + kBefore);
      }
      return close_[place];
    }

   private:
    static constexpr size_t kBefore = 1024;

    void move_near(size_t size) {
      const size_t before = close_.size();
      close_.resize(size + size / 2, -1);
      if (far_.empty()) return;
      for (size_t place = before; place < close_.size(); ++place) {
        const auto found = far_.find(static_cast<int64_t>(static_cast<uint64_t>(first_) + place));
        if (found != far_.end()) close_[place] = found->second;
      }
    }

    std::vector<int32_t> close_;
    std::unordered_map<int64_t, int32_t> far_;
    int64_t first_ = 0;
  };

  std::unordered_map<int64_t, Numbers> threads_;
  Numbers* of_thread_ = nullptr;  // elements of an unordered map keep their addresses
  int64_t thread_ = 0;
};

// Sets the forward operator of each backward span with its sequence number: the last operator that began
// earlier made the node. A retained graph runs more than once.
inline void find_makers(const Events& events, const std::vector<int64_t>& thread_number,
                        std::vector<int32_t>& maker) {
  RowsByNumber latest;
  for (size_t row = 0; row < events.rows; ++row) {
    const int64_t number = events.sequence[row];
    if (number < 0) continue;
    if (const int32_t thread = events.forward_thread[row]; thread > 0) {
      const int32_t found = latest.at(thread, number);
      if (found >= 0) maker[row] = found;
    } else if (events.scope_of(row) == RecordScope::kFunction &&
               events.kind_of(row) == EventKind::kOperator) {
      const auto own = static_cast<size_t>(events.thread[row]);
      latest.at(thread_number[own], number) = static_cast<int32_t>(row);
    }
  }
}

// Gives each span that stores a gradient the maker of the span that computed it: the engine stores the
// gradient right after. `is_engine`: whether each name, and last no name, is a span of the engine around a
// node.
inline void add_stores(const Events& events, int32_t store, const std::vector<uint8_t>& is_engine,
                       std::vector<int32_t>& maker) {
  std::vector<uint8_t> has_stores(events.rows + 1);  // of every parent; the first is "no parent"
  const auto parent_of = [&](size_t row) { return static_cast<size_t>(events.parent[row] + 1); };
  for (size_t row = 0; row < events.rows; ++row) {
    if (events.name[row] == store) has_stores[parent_of(row)] = 1;
  }
  constexpr int32_t kNone = -1;
  std::unordered_map<uint64_t, int32_t> latest;  // by parent and thread, the last span that computed
  int32_t* last = nullptr;
  uint64_t last_beside = 0;
  for (size_t row = 0; row < events.rows; ++row) {
    if (has_stores[parent_of(row)] == 0 || events.kind_of(row) == EventKind::kGcPause) continue;
    const uint64_t beside = parent_of(row) << 32 | static_cast<uint32_t>(events.thread[row]);
    if (last == nullptr || beside != last_beside) last = &latest.try_emplace(beside, kNone).first->second;
    last_beside = beside;
    int32_t& computed = *last;
    const int32_t name = events.name[row];
    if (name == store) {
      if (computed != kNone) maker[row] = maker[static_cast<size_t>(computed)];
      continue;
    }
    const bool computes =
        maker[row] >= 0 && is_engine[name < 0 ? is_engine.size() - 1 : static_cast<size_t>(name)];
    computed = computes ? static_cast<int32_t>(row) : kNone;
  }
}

struct ModuleCalls {
  columns::Unfilled<int32_t> call;  // module call of every event, -1 for none
  FlagColumn is_backward;           // whether the backward pass connects them
  // A place is the set of calls of one label within calls of one place. Place of every event's call, -1 for
  // none,
  std::vector<int32_t> place;
  std::vector<int32_t> label;   // label of every place,
  std::vector<int32_t> around;  // and the place around it, an earlier row; -1 for none
};

// Identifies a place: a label within a place.
struct PlaceKey {
  int32_t outer = -1;  // the place around, -1 for none
  int32_t label = -1;

  friend bool operator==(const PlaceKey& one, const PlaceKey& other) = default;
  struct Hash {
    uint64_t operator()(const PlaceKey& key) const {
      return static_cast<uint64_t>(key.outer + 1) << 32 | static_cast<uint32_t>(key.label);
    }
  };
};

inline ModuleCalls module_calls(const Events& events, const int32_t* label,
                                const std::vector<int32_t>& maker) {
  ModuleCalls found;
  found.call.resize(events.rows);
  found.is_backward.resize(events.rows);
  found.place.assign(events.rows, -1);
  const auto is_module = [&](size_t row) { return events.kind_of(row) == EventKind::kModuleCall; };
  // Closest event, including itself, that determines the module: a module call, or a span with a maker. And
  // the closest module call.
  columns::OfRowOrNone<int32_t> closest(events.rows, -1);
  columns::OfRowOrNone<int32_t> inner(events.rows, -1);  // closest module call, including itself
  Numbering<PlaceKey, PlaceKey::Hash> places;
  nesting::each_after_parent(events.parent, events.rows, [&](size_t row, int32_t parent) {
    const int32_t around = inner.of(parent);
    const bool decides = is_module(row) || maker[row] >= 0;
    closest[row] = decides ? static_cast<int32_t>(row) : closest.of(parent);
    inner[row] = is_module(row) ? static_cast<int32_t>(row) : around;
    if (!is_module(row)) return;
    const int32_t place = around < 0 ? -1 : found.place[static_cast<size_t>(around)];
    found.place[row] = places.of({place, label[row]});
  });
  for (const PlaceKey& key : places.keys()) {
    found.label.push_back(key.label);
    found.around.push_back(key.outer);
  }
  // Follows spans and makers alternately; gradients of gradients take several rounds. Results are cached, so
  // each path is followed once. A cycle, in a damaged trace, counts as no module.
  constexpr int32_t kNotSearched = -2;
  std::vector<int32_t> found_of(events.rows, kNotSearched);
  std::vector<int32_t> way;
  for (size_t row = 0; row < events.rows; ++row) {
    int32_t at = closest[row];
    for (way.clear(); at >= 0 && !is_module(static_cast<size_t>(at));) {
      const auto span = static_cast<size_t>(at);
      if (found_of[span] != kNotSearched) {
        at = found_of[span];
        break;
      }
      found_of[span] = -1;
      way.push_back(at);
      at = closest[static_cast<size_t>(maker[span])];
    }
    for (const int32_t span : way) found_of[static_cast<size_t>(span)] = at;
    found.is_backward[row] = at >= 0 && maker[static_cast<size_t>(closest[row])] >= 0;
    // If no span determines the module, the module call around the event counts.
    found.call[row] = at >= 0 ? at : inner[row];
    if (found.call[row] >= 0) found.place[row] = found.place[static_cast<size_t>(found.call[row])];
  }
  return found;
}

}  // namespace opscope::attribution
