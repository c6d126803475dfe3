// Where records and arguments are kept: the block pool, a thread's log of chunks, its arena.
#include <atomic>
#include <vector>

#include "check.h"
#include "decode/payload_reader.h"
#include "log/arena.h"
#include "log/block_pool.h"
#include "log/chunk_log.h"
#include "log/log_view.h"
#include "log/needed_records.h"
#include "log/thread_log.h"

using namespace opscope;

namespace {

constexpr size_t kChunk = Chunk::kRecords;

const std::atomic<bool> kNotWatched{false};

uint64_t no_arena(bool) { return 0; }

Record* append(ChunkLog& log, RecordKind kind, SpanState state = SpanState::kClosed) {
  Record* record = log.next_record(no_arena);
  if (record == nullptr) return nullptr;
  record->kind = kind;
  record->state = static_cast<uint8_t>(state);
  record->ticks = log.size();
  log.publish();
  return record;
}

void append_many(ChunkLog& log, size_t count) {
  for (size_t i = 0; i < count; ++i) append(log, RecordKind::kOperator);
}

std::vector<uint64_t> chunk_starts(const ChunkLog& log) {
  std::vector<uint64_t> starts;
  for (const Chunk* chunk : blocks_from<Chunk>(log.head())) starts.push_back(chunk->first_index());
  return starts;
}

// Keeps what is in these parts.
void release(ChunkLog& log, const NeededParts& needed) {
  log.release_unneeded(NeededSweep(needed), [](uint64_t, uint64_t) {});
}
void release_before(ChunkLog& log, uint64_t first) { release(log, {{first, kStillOpen}}); }

// A payload of one word per element, `first` counting up.
uint32_t put_numbers(Arena& arena, uint64_t first, size_t count) {
  if (!arena.begin()) return kCutArena;
  for (size_t i = 0; i < count; ++i) {
    uint64_t* word = arena.reserve(1);
    if (word == nullptr) {
      arena.cancel();
      return kCutArena;
    }
    *word = make_tag(Tag::kBool, first + i);
    arena.advance(1);
  }
  return arena.commit();
}

std::vector<uint64_t> numbers_at(Payloads& payloads, uint32_t position, size_t count) {
  std::vector<uint64_t> numbers;
  payloads.read(position, [&](PayloadReader& reader) {
    for (size_t i = 0; i < count; ++i) numbers.push_back(detail_of(reader.next()));
  });
  return numbers;
}

size_t blocks_of(const Arena& arena) { return blocks_from<ArenaBlock>(arena.head()).size(); }

}  // namespace

TEST(pool_hands_out_distinct_blocks_and_takes_them_again) {
  BlockPool pool;
  void* first = pool.acquire();
  void* second = pool.acquire();
  CHECK(first != nullptr && second != nullptr && first != second);
  const size_t mapped = pool.mapped_bytes();
  pool.release(first);
  CHECK(pool.acquire() == first);
  CHECK_SAME(pool.mapped_bytes(), mapped);
}

TEST(pool_stops_at_its_budget) {
  BlockPool pool;
  pool.set_budget(8 * kBlockBytes);
  std::vector<void*> blocks;
  for (void* block = pool.acquire(); block != nullptr; block = pool.acquire()) blocks.push_back(block);
  CHECK_SAME(blocks.size(), 8u);
  CHECK_SAME(pool.mapped_bytes(), 8 * kBlockBytes);
  pool.release(blocks.back());
  CHECK(pool.acquire() == blocks.back());
  pool.set_budget(0);
  CHECK(pool.acquire() == nullptr);
}

TEST(pool_returns_to_the_system_what_it_does_not_keep) {
  BlockPool pool;
  const auto use_and_release = [&] {
    std::vector<void*> blocks;
    for (int i = 0; i < 600; ++i) blocks.push_back(pool.acquire());
    CHECK(pool.mapped_bytes() >= 600 * kBlockBytes);
    for (void* block : blocks) pool.release(block);
    return pool.mapped_bytes();
  };
  const size_t kept = use_and_release();
  CHECK(kept < 600 * kBlockBytes);
  CHECK_SAME(use_and_release(), kept);
  pool.prepare();
  CHECK_SAME(pool.mapped_bytes(), kept);
}

TEST(log_keeps_records_in_order_over_chunks) {
  BlockPool pool;
  ChunkLog log(pool, 3);
  CHECK(log.head() == nullptr);
  append_many(log, 3 * kChunk + 5);
  CHECK_SAME(log.size(), 3 * kChunk + 5);
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{0, kChunk, 2 * kChunk, 3 * kChunk});
  uint64_t index = 0;
  for (const Chunk* chunk : blocks_from<Chunk>(log.head())) {
    for (size_t i = 0; i < kChunk && index < log.size(); ++i) CHECK_SAME(chunk->records[i].ticks, index++);
  }
}

TEST(log_releases_only_what_nobody_needs) {
  BlockPool pool;
  ChunkLog log(pool, 3);
  release_before(log, 0);
  append_many(log, 4 * kChunk);
  release_before(log, 0);
  CHECK_SAME(chunk_starts(log).size(), 4u);
  release_before(log, 2 * kChunk - 1);
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{kChunk, 2 * kChunk, 3 * kChunk});
  release_before(log, 2 * kChunk);
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{2 * kChunk, 3 * kChunk});
  // The one being written to stays, even when nothing in it is needed.
  release_before(log, log.size());
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{3 * kChunk});
  append_many(log, 1);
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{3 * kChunk, 4 * kChunk});
}

TEST(what_lies_between_two_needed_parts_is_released) {
  BlockPool pool;
  ChunkLog log(pool, 3);
  append_many(log, 9 * kChunk + 1);
  // One in one chunk, one in another that reaches over the border of two, and one that has nothing.
  release(log,
          {{kChunk + 3, kChunk + 9}, {4 * kChunk - 1, 4 * kChunk + 1}, {6 * kChunk + 5, 6 * kChunk + 5}});
  const std::vector<uint64_t> kept{kChunk, 3 * kChunk, 4 * kChunk, 9 * kChunk};
  CHECK_SAME(chunk_starts(log), kept);
  // A part within another one hides nothing of it.
  append_many(log, 3 * kChunk);
  release(log, {{kChunk, 11 * kChunk}, {kChunk, 2 * kChunk}});
  const std::vector<uint64_t> still{kChunk, 3 * kChunk, 4 * kChunk, 9 * kChunk, 10 * kChunk, 12 * kChunk};
  CHECK_SAME(chunk_starts(log), still);
  release(log, {});
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{12 * kChunk});
}

TEST(arena_blocks_go_with_the_chunks_that_refer_to_them) {
  BlockPool pool;
  ThreadLog thread(pool, 3, 1, 1, "main", kNotWatched);
  std::vector<uint32_t> positions;
  constexpr size_t kRecords = 8 * kChunk;
  for (size_t i = 0; i < kRecords; ++i) {
    Record* record = thread.append(RecordKind::kOutputs);
    positions.push_back(put_numbers(thread.arena(), i, 20));
    CHECK(record != nullptr);
    thread.publish();
  }
  const size_t before = blocks_of(thread.arena());
  const NeededParts needed{{0, 10}, {3 * kChunk, 5 * kChunk}}, nothing;
  thread.release_unneeded(NeededSweep(needed));
  CHECK(blocks_of(thread.arena()) < before * 2 / 3);
  const std::vector<const ArenaBlock*> blocks = blocks_from<ArenaBlock>(thread.arena().head());
  Payloads payloads(blocks);
  for (size_t i = 0; i < kRecords; ++i) {
    if (i >= kChunk && (i < 3 * kChunk || i >= 5 * kChunk)) continue;
    const std::vector<uint64_t> numbers = numbers_at(payloads, positions[i], 20);
    if (numbers.size() != 20 || numbers.front() != i || numbers.back() != i + 19) CHECK(false);
  }
  thread.release_unneeded(NeededSweep(nothing));
  CHECK(blocks_of(thread.arena()) < before / 4);
}

TEST(an_open_span_keeps_its_chunk_and_no_other) {
  BlockPool pool;
  ChunkLog log(pool, 3);
  append_many(log, kChunk + 7);
  Record* open = append(log, RecordKind::kAnnotation, SpanState::kOpen);
  append_many(log, 5 * kChunk);
  release_before(log, log.size());
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{kChunk, 6 * kChunk});
  // Its owner still writes to it.
  open->store_end(1);
  open->store_state(SpanState::kClosed);
  release_before(log, log.size());
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{6 * kChunk});
}

TEST(a_record_being_filled_in_is_not_handed_out_again) {
  BlockPool pool;
  ChunkLog log(pool, 3);
  for (size_t i = 0; i < 2 * kChunk + 1; ++i) {
    Record* record = log.next_record(no_arena);
    CHECK(record != nullptr);
    CHECK(log.next_record(no_arena) == nullptr);
    record->ticks = i;
    log.publish();
  }
  CHECK_SAME(log.size(), 2 * kChunk + 1);
  CHECK_SAME(chunk_starts(log), std::vector<uint64_t>{0, kChunk, 2 * kChunk});
}

TEST(a_log_without_memory_says_so_and_goes_on_when_there_is_some) {
  BlockPool pool;
  pool.set_budget(4 * kBlockBytes);
  ChunkLog log(pool, 3);
  append_many(log, 4 * kChunk);
  CHECK(append(log, RecordKind::kOperator) == nullptr);
  CHECK_SAME(log.size(), 4 * kChunk);
  release_before(log, log.size());
  CHECK(append(log, RecordKind::kOperator) != nullptr);
  CHECK_SAME(log.size(), 4 * kChunk + 1);
}

TEST(arena_finds_payloads_again_in_rising_order) {
  BlockPool pool;
  Arena arena(pool, 3);
  std::vector<uint32_t> positions;
  constexpr size_t kPayloads = 5000;
  for (size_t i = 0; i < kPayloads; ++i) positions.push_back(put_numbers(arena, i * 100, 1 + i % 17));
  CHECK(blocks_of(arena) > 3);
  const std::vector<const ArenaBlock*> blocks = blocks_from<ArenaBlock>(arena.head());
  Payloads payloads(blocks);
  for (size_t i = 0; i < kPayloads; ++i) {
    const std::vector<uint64_t> numbers = numbers_at(payloads, positions[i], 1 + i % 17);
    if (numbers.front() != i * 100 || numbers.back() != i * 100 + i % 17) CHECK(false);
  }
}

TEST(a_payload_larger_than_a_block_goes_on_in_the_next) {
  BlockPool pool;
  Arena arena(pool, 3);
  const uint32_t small = put_numbers(arena, 7, 3);
  constexpr size_t kCount = 3 * ArenaBlock::kWords;
  const uint32_t large = put_numbers(arena, 1000, kCount);
  const uint32_t after = put_numbers(arena, 9, 2);
  const std::vector<const ArenaBlock*> blocks = blocks_from<ArenaBlock>(arena.head());
  Payloads payloads(blocks);
  CHECK_SAME(numbers_at(payloads, small, 3), std::vector<uint64_t>{7, 8, 9});
  const std::vector<uint64_t> numbers = numbers_at(payloads, large, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    if (numbers[i] != 1000 + i) CHECK_SAME(numbers[i], 1000 + i);
  }
  CHECK_SAME(numbers_at(payloads, after, 2), std::vector<uint64_t>{9, 10});
}

TEST(a_payload_whose_first_entry_does_not_fit_starts_in_the_next_block) {
  BlockPool pool;
  Arena arena(pool, 3);
  std::vector<uint32_t> positions;
  constexpr size_t kWords = 1000;  // all of a payload, asked for at once
  for (uint64_t i = 0; i < 50; ++i) {
    CHECK(arena.begin());
    uint64_t* word = arena.reserve(kWords);
    word[0] = i;
    word[kWords - 1] = ~i;
    arena.advance(kWords);
    positions.push_back(arena.commit());
  }
  const std::vector<const ArenaBlock*> blocks = blocks_from<ArenaBlock>(arena.head());
  Payloads payloads(blocks);
  for (uint64_t i = 0; i < positions.size(); ++i) {
    CHECK(payloads.read(positions[i], [&](PayloadReader& reader) {
      const uint64_t* const word = reader.take(kWords);
      CHECK_SAME(word[0], i);
      CHECK_SAME(word[kWords - 1], ~i);
    }));
  }
}

TEST(a_cancelled_payload_leaves_nothing_behind) {
  BlockPool pool;
  Arena arena(pool, 3);
  CHECK(arena.begin());
  CHECK(arena.reserve(100) != nullptr);
  arena.advance(100);
  arena.cancel();
  const uint32_t first = put_numbers(arena, 1, 1);
  CHECK_SAME(first, arena_position(0, 0));
  // Also when it had already gone on in another block.
  CHECK(arena.begin());
  for (size_t i = 0; i < ArenaBlock::kWords + 10; ++i) {
    uint64_t* word = arena.reserve(1);
    *word = make_tag(Tag::kNone);
    arena.advance(1);
  }
  arena.cancel();
  const uint32_t second = put_numbers(arena, 42, 1);
  const std::vector<const ArenaBlock*> blocks = blocks_from<ArenaBlock>(arena.head());
  Payloads payloads(blocks);
  CHECK_SAME(numbers_at(payloads, first, 1), std::vector<uint64_t>{1});
  CHECK_SAME(numbers_at(payloads, second, 1), std::vector<uint64_t>{42});
}

TEST(an_entry_no_block_can_hold_is_refused) {
  BlockPool pool;
  Arena arena(pool, 3);
  CHECK(arena.begin());
  CHECK(arena.reserve(ArenaBlock::kWords) == nullptr);
  arena.cancel();
  CHECK(put_numbers(arena, 1, 1) != kCutArena);
}

TEST(an_arena_without_memory_cuts_payloads_and_recovers) {
  BlockPool pool;
  pool.set_budget(4 * kBlockBytes);
  Arena arena(pool, 3);
  uint32_t last = 0;
  size_t kept = 0;
  for (; (last = put_numbers(arena, kept, 1000)) != kCutArena; ++kept) {
  }
  CHECK(kept >= 4 * ArenaBlock::kWords / 1001 - 1);
  Arena::Releasing(arena).keep(arena.current_block(), UINT64_MAX);
  CHECK(put_numbers(arena, 5, 1000) != kCutArena);
}

TEST(arena_blocks_are_released_up_to_the_first_needed) {
  BlockPool pool;
  Arena arena(pool, 3);
  Arena::Releasing(arena).keep(10, UINT64_MAX);
  for (int i = 0; i < 50; ++i) put_numbers(arena, 0, 1000);
  const size_t before = blocks_of(arena);
  Arena::Releasing(arena).keep(2, UINT64_MAX);
  CHECK_SAME(blocks_of(arena), before - 2);
  CHECK_SAME(arena.head()->sequence, 2u);
  Arena::Releasing(arena).keep(1000, UINT64_MAX);
  CHECK_SAME(blocks_of(arena), 1u);
}

int main() { return opscope::tests::run_all(); }
