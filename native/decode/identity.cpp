#include "decode/identity.h"

#include <algorithm>
#include <numeric>

namespace opscope {

namespace {

constexpr int64_t kNoIdentity = -1;

uint16_t device_key(int8_t type, int8_t index) {
  return static_cast<uint16_t>(static_cast<uint8_t>(type) << 8 | static_cast<uint8_t>(index));
}

// Table: tensors or parameters.
template <typename Table>
void add_tensors(std::vector<Sighting>& sightings, Table& t, const std::vector<int64_t>& times) {
  t.allocation_id.assign(t.impl.size(), kNoIdentity);
  t.tensor_id.assign(t.impl.size(), kNoIdentity);
  for (size_t i = 0; i < t.impl.size(); ++i) {
    if (t.impl[i] == 0) continue;  // undefined
    sightings.push_back({times[i], t.impl[i], t.storage[i], device_key(t.device_type[i], t.device_index[i]),
                         false, &t.allocation_id[i], &t.tensor_id[i]});
  }
}

std::vector<int64_t> tensor_times(const Columns& columns) {
  const TensorColumns& t = columns.tensors;
  const EventColumns& e = columns.events;
  std::vector<int64_t> times(t.event.size());
  for (size_t i = 0; i < t.event.size(); ++i) {
    const int32_t event = t.event[i];
    const bool is_output = t.role[i] == Role::kOutput || t.role[i] == Role::kOutputPart;
    times[i] = e.start_ns[event] + (is_output ? e.duration_ns[event] : 0);
  }
  return times;
}

std::vector<Sighting> sightings_of(Columns& columns) {
  AllocationColumns& a = columns.allocations;
  std::vector<Sighting> sightings;
  sightings.reserve(columns.tensors.impl.size() + columns.parameters.impl.size() + a.time_ns.size());
  add_tensors(sightings, columns.tensors, tensor_times(columns));
  add_tensors(sightings, columns.parameters, columns.parameters.time_ns);
  a.allocation_id.assign(a.time_ns.size(), kNoIdentity);
  a.tensor_id.assign(a.time_ns.size(), kNoIdentity);
  for (size_t i = 0; i < a.time_ns.size(); ++i) {
    if (a.action[i] == AllocationAction::kOutOfMemory) continue;
    sightings.push_back({a.time_ns[i], 0, a.address[i], device_key(a.device_type[i], a.device_index[i]),
                         a.size_bytes[i] < 0, &a.allocation_id[i], &a.tensor_id[i]});
  }
  return sightings;
}

// Hash map from a pair of integers to a number. Open addressing: each tensor argument needs one lookup.
class NumberMap {
 public:
  explicit NumberMap(size_t expected) {
    size_t size = 64;
    while (size < expected * 2) size *= 2;
    slots_.resize(size);
  }

  // Value at (a, b); inserts `value` if there is none.
  int64_t& at(uint64_t a, uint64_t b, int64_t value) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = find(a, b);
    if (!slot.taken) {
      slot = {a, b, value, true};
      ++used_;
    }
    return slot.value;
  }

 private:
  struct Slot {
    uint64_t a = 0;
    uint64_t b = 0;
    int64_t value = 0;
    bool taken = false;
  };

  Slot& find(uint64_t a, uint64_t b) {
    const size_t mask = slots_.size() - 1;
    size_t i = ((a ^ (b << 48)) * 0x9e3779b97f4a7c15ULL) >> 20 & mask;
    while (slots_[i].taken && (slots_[i].a != a || slots_[i].b != b)) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.taken) find(slot.a, slot.b) = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// Disjoint sets of allocation ids; the smallest id represents its set.
class Groups {
 public:
  explicit Groups(size_t count) : parents_(count), holds_tensor_(count, false) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }
  int64_t find(int64_t id) {
    while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
    return id;
  }
  void join(int64_t a, int64_t b) {
    a = find(a);
    b = find(b);
    if (a != b) parents_[std::max(a, b)] = std::min(a, b);
  }
  void mark(int64_t id) { holds_tensor_[id] = true; }
  bool marked(int64_t id) const { return holds_tensor_[id]; }

 private:
  std::vector<int64_t> parents_;
  std::vector<bool> holds_tensor_;
};

// Set element of each sighting of a tensor: its allocation, or a separate element for each tensor without
// storage (sparse, empty, or emptied by set_()). Numbered from 1, in order of first sighting.
std::vector<int64_t> elements_of(const std::vector<Sighting>& sightings, int64_t allocations,
                                 int64_t* count) {
  std::vector<int64_t> elements(sightings.size());
  std::vector<int64_t> of_allocation(static_cast<size_t>(allocations), kNoIdentity);
  NumberMap without_storage(64);
  *count = 1;
  for (size_t i = 0; i < sightings.size(); ++i) {
    const Sighting& sighting = sightings[i];
    const bool has_storage = sighting.impl == 0 || sighting.storage != 0;
    int64_t& element = has_storage ? of_allocation[static_cast<size_t>(*sighting.allocation_id)]
                                   : without_storage.at(sighting.impl, 0, kNoIdentity);
    if (element == kNoIdentity) element = (*count)++;
    elements[i] = element;
  }
  return elements;
}

}  // namespace

void assign_no_identity(Columns& columns) {
  const auto assign = [](auto& table, size_t rows) {
    table.allocation_id.assign(rows, kNoIdentity);
    table.tensor_id.assign(rows, kNoIdentity);
  };
  assign(columns.tensors, columns.tensors.impl.size());
  assign(columns.parameters, columns.parameters.impl.size());
  assign(columns.allocations, columns.allocations.address.size());
}

// An allocation begins a life even if the previous one at its address has not ended: its free was not
// reported. Counts such lives whose allocation was recorded; torch does not report frees of the others.
int64_t number_allocations(std::vector<Sighting>& sightings, uint64_t* unreported_frees) {
  const auto by_time = [](const Sighting& x, const Sighting& y) { return x.time_ns < y.time_ns; };
  if (!std::is_sorted(sightings.begin(), sightings.end(), by_time)) {
    std::stable_sort(sightings.begin(), sightings.end(), by_time);
  }
  constexpr int64_t kEnded = 0;
  std::vector<bool> was_allocated = {false};  // whether the life began with its allocation
  NumberMap lives(sightings.size() / 4);
  for (Sighting& sighting : sightings) {
    int64_t& life = lives.at(sighting.storage, sighting.device, kEnded);
    const bool is_allocated = sighting.impl == 0 && !sighting.is_free;
    if (is_allocated && life != kEnded) {
      *unreported_frees += was_allocated[static_cast<size_t>(life)] ? 1 : 0;
      life = kEnded;
    }
    if (life == kEnded) {
      life = static_cast<int64_t>(was_allocated.size());
      was_allocated.push_back(is_allocated);
    }
    *sighting.allocation_id = life;
    if (sighting.is_free) life = kEnded;
  }
  return static_cast<int64_t>(was_allocated.size());
}

void assign_identity(Columns& columns, const std::vector<int64_t>& releases_ns) {
  std::vector<Sighting> sightings = sightings_of(columns);
  int64_t count = 0;
  const int64_t allocations = number_allocations(sightings, &columns.unreported_frees);
  const std::vector<int64_t> elements = elements_of(sightings, allocations, &count);
  Groups groups(static_cast<size_t>(count));
  NumberMap first_element(sightings.size() / 4);  // of each TensorImpl between two releases
  size_t released = 0;
  for (size_t i = 0; i < sightings.size(); ++i) {
    if (sightings[i].impl == 0) continue;
    groups.mark(elements[i]);
    while (released < releases_ns.size() && releases_ns[released] <= sightings[i].time_ns) ++released;
    groups.join(first_element.at(sightings[i].impl, released, elements[i]), elements[i]);
  }
  // Ids in order of each set's first sighting, for sets that contain a tensor.
  std::vector<int64_t> ids(static_cast<size_t>(count), kNoIdentity);
  int64_t next = 0;
  for (int64_t element = 1; element < count; ++element) {
    if (!groups.marked(element)) continue;
    int64_t& id = ids[static_cast<size_t>(groups.find(element))];
    if (id == kNoIdentity) id = next++;
  }
  for (size_t i = 0; i < sightings.size(); ++i) {
    if (groups.marked(elements[i]))
      *sightings[i].tensor_id = ids[static_cast<size_t>(groups.find(elements[i]))];
  }
}

}  // namespace opscope
