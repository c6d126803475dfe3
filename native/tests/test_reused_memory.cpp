// Reused memory: owners, contents, and release.
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "columns/reused_memory.h"

using namespace opscope;
using namespace opscope::tests;
using columns::ReusedMemory;

namespace {

constexpr size_t kLarge = ReusedMemory::kSmallestBytes;

bool all_are(const void* data, size_t size, uint8_t value) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  // Compares each byte with its neighbour: a sanitizer checks this in one step, not each byte of a loop.
  return size == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

// Arrays of random sizes, each filled with a unique number that must be intact when it is freed.
bool keeps_contents(ReusedMemory& memory, uint32_t seed, int rounds) {
  struct Array {
    void* data;
    size_t size;
    uint8_t value;
  };
  std::mt19937 random(seed);
  std::vector<Array> arrays;
  bool kept = true;
  memory.begin();
  for (int round = 0; round < rounds; ++round) {
    const size_t size = random() % 3 == 0 ? random() % 1000 : kLarge / 2 + random() % (3 * kLarge);
    const auto value = static_cast<uint8_t>(random());
    switch (random() % 4) {
      case 0: {
        void* const data = memory.allocate_cleared(size, 1);
        kept &= all_are(data, size, 0);
        std::memset(data, value, size);
        arrays.push_back({data, size, value});
        break;
      }
      case 1:
        arrays.push_back({memory.allocate(size), size, value});
        std::memset(arrays.back().data, value, size);
        break;
      case 2:
        if (arrays.empty()) break;
        arrays.back().data = memory.reallocate(arrays.back().data, size);
        kept &= all_are(arrays.back().data, std::min(size, arrays.back().size), arrays.back().value);
        arrays.back() = {arrays.back().data, size, value};
        std::memset(arrays.back().data, value, size);
        break;
      default:
        if (arrays.empty()) break;
        std::swap(arrays[random() % arrays.size()], arrays.back());
        kept &= all_are(arrays.back().data, arrays.back().size, arrays.back().value);
        memory.release(arrays.back().data);
        arrays.pop_back();
    }
  }
  memory.end();
  for (const Array& array : arrays) {
    kept &= all_are(array.data, array.size, array.value);
    memory.release(array.data);
  }
  return kept;
}

}  // namespace

TEST(no_more_is_kept_than_that_and_no_memory_is_no_crash) {
  ReusedMemory memory;
  memory.begin();
  std::vector<void*> arrays;
  for (size_t had = 0; had < 2 * ReusedMemory::kKeptBytes; had += ReusedMemory::kChunkBytes) {
    arrays.push_back(memory.allocate(ReusedMemory::kChunkBytes));
  }
  for (void* const array : arrays) memory.release(array);
  CHECK(memory.amounts().kept_bytes <= ReusedMemory::kKeptBytes);
  CHECK(memory.allocate(SIZE_MAX) == nullptr);
  CHECK(memory.allocate_cleared(SIZE_MAX / 2, 4) == nullptr);
  memory.release(nullptr);
  memory.release(memory.reallocate(nullptr, 0));
  memory.end();
}

TEST(arrays_hold_what_was_put_there) {
  ReusedMemory memory;
  for (uint32_t seed = 0; seed < 2; ++seed) CHECK(keeps_contents(memory, seed, 200));
  CHECK_SAME(memory.amounts().used_bytes, size_t{0});
  std::vector<uint8_t> kept(4);
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < kept.size(); ++seed) {
    threads.emplace_back([&, seed] { kept[seed] = keeps_contents(memory, 100 + seed, 60); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(all_are(kept.data(), kept.size(), 1));
  CHECK_SAME(memory.amounts().used_bytes, size_t{0});
  CHECK_SAME(memory.amounts().kept_bytes, size_t{0});
}

int main() { return run_all(); }
