// Reads payloads word by word; the only code that follows lengths and links in arena words.
//
// Payloads may come from a file, so they end at the end of their blocks: an entry beyond its block is damage,
// and one whose next block is missing is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "log/arena.h"
#include "log/bytes.h"
#include "log/payload.h"

namespace opscope {

// The next block of the payload is missing.
struct PayloadIsCut {};

class PayloadReader {
 public:
  // Begins at a payload's first word, in the first of these blocks of a thread. `word` is below kWords.
  PayloadReader(const ArenaBlock* const* block, const ArenaBlock* const* end, size_t word)
      : word_((*block)->words + word),
        limit_((*block)->words + ArenaBlock::kWords),
        block_(block),
        end_(end) {}

  // First word of the next entry. Raises PayloadIsCut.
  uint64_t next() {
    uint64_t word = *take(1);
    while (tag_of(word) == Tag::kContinued) [[unlikely]] {
      go_on();
      word = *take(1);
    }
    return word;
  }

  // The next `count` words of the entry.
  const uint64_t* take(size_t count) {
    require(count <= static_cast<size_t>(limit_ - word_), "arguments extend beyond their block");
    const uint64_t* const taken = word_;
    word_ += count;
    words_ += count;
    return taken;
  }

  // Text of an entry whose first word is `word`.
  std::string_view take_text(uint64_t word) {
    const uint64_t bytes = detail_of(word);
    return {reinterpret_cast<const char*>(take((bytes + 7) / 8)), bytes};
  }

  // Number of words read.
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

// Finds payloads of one thread by position. Positions must increase between calls; it visits each block once.
class Payloads {
 public:
  Payloads() = default;
  explicit Payloads(const std::vector<const ArenaBlock*>& blocks)
      : block_(blocks.data()),
        end_(blocks.data() + blocks.size()),
        words_left_(blocks.size() * ArenaBlock::kWords) {}

  // Calls function(reader); false if the payload or its end is lost.
  template <typename Function>
  bool read(uint32_t position, Function&& function) {
    const size_t word = position & ((1u << kArenaWordBits) - 1);
    if (!find(position)) return false;
    require(word < ArenaBlock::kWords, "arguments have a position outside all blocks");
    PayloadReader reader(block_, end_, word);
    try {
      function(reader);
    } catch (const PayloadIsCut&) {
      return false;
    }
    // Payloads share no words, so there are no more rows than words.
    require(reader.words() <= words_left_, "arguments overlap");
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
