// Reads payloads, word by word: the one place that follows what words of an arena say.
//
// They may come from a file, so a payload ends where its blocks do: an entry that would go beyond its block
// is damage, and one whose next block is not there is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "log/arena.h"
#include "log/bytes.h"
#include "log/payload.h"

namespace opscope {

// The rest of a payload is in a block that could not be kept.
struct PayloadIsCut {};

class PayloadReader {
 public:
  // At the first word of a payload, in the first of these blocks of a thread. `word` is below kWords.
  PayloadReader(const ArenaBlock* const* block, const ArenaBlock* const* end, size_t word)
      : word_((*block)->words + word),
        limit_((*block)->words + ArenaBlock::kWords),
        block_(block),
        end_(end) {}

  // The first word of the next entry. Raises PayloadIsCut.
  uint64_t next() {
    uint64_t word = *take(1);
    while (tag_of(word) == Tag::kContinued) [[unlikely]] {
      go_on();
      word = *take(1);
    }
    return word;
  }

  // So many more words of the entry.
  const uint64_t* take(size_t count) {
    require(count <= static_cast<size_t>(limit_ - word_), "arguments go beyond the block that they are in");
    const uint64_t* const taken = word_;
    word_ += count;
    words_ += count;
    return taken;
  }

  // The text of an entry that begins with `word`.
  std::string_view take_text(uint64_t word) {
    const uint64_t bytes = detail_of(word);
    return {reinterpret_cast<const char*>(take((bytes + 7) / 8)), bytes};
  }

  // Those that were read.
  size_t words() const { return words_; }

 private:
  [[gnu::noinline]] void go_on() {
    const uint64_t sequence = (*block_)->header.sequence;
    if (++block_ == end_ || (*block_)->header.sequence != sequence + 1) throw PayloadIsCut();
    word_ = (*block_)->words;
    limit_ = word_ + ArenaBlock::kWords;
  }

  const uint64_t* word_;
  const uint64_t* limit_;
  const ArenaBlock* const* block_;
  const ArenaBlock* const* end_;
  size_t words_ = 0;
};

// Finds the payloads of one thread by position. Positions are asked for in rising order, so it walks the
// blocks once.
class Payloads {
 public:
  Payloads() = default;
  explicit Payloads(const std::vector<const ArenaBlock*>& blocks)
      : block_(blocks.data()),
        end_(blocks.data() + blocks.size()),
        words_left_(blocks.size() * ArenaBlock::kWords) {}

  // Calls function(reader); false where the payload, or the end of it, is not there any more.
  template <typename Function>
  bool read(uint32_t position, Function&& function) {
    const size_t word = position & ((1u << kArenaWordBits) - 1);
    if (!find(position)) return false;
    require(word < ArenaBlock::kWords, "arguments are at a place that there is not");
    PayloadReader reader(block_, end_, word);
    try {
      function(reader);
    } catch (const PayloadIsCut&) {
      return false;
    }
    // No two payloads have a word in common, so there are no more rows than words.
    require(reader.words() <= words_left_, "arguments lie over one another");
    words_left_ -= reader.words();
    return true;
  }

 private:
  bool find(uint32_t position);

  const ArenaBlock* const* block_ = nullptr;
  const ArenaBlock* const* end_ = nullptr;
  size_t words_left_ = 0;
};

}  // namespace opscope
