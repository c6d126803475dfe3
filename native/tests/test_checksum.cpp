// Tests of the checksum that files for other tools are written with.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "check.h"
#include "writers/checksum.h"

namespace {

uint64_t checksum_of(std::string_view text, size_t piece) {
  opscope::writers::Checksum checksum;
  for (size_t at = 0; at < text.size(); at += piece) checksum.add(text.substr(at, piece));
  return checksum.value();
}

}  // namespace

TEST(the_checksum_is_xxh64) {
  // Values of the reference implementation of XXH64.
  CHECK_SAME(checksum_of("", 1), 0xef46db3751d8e999u);
  CHECK_SAME(checksum_of("a", 1), 0xd24ec4f1a98c6e5bu);
  CHECK_SAME(checksum_of("abc", 3), 0x44bc2cf5ad770999u);
  CHECK_SAME(checksum_of("Nobody inspects the spammish repetition", 99), 0xfbcea83c8a378bf1u);
}

TEST(pieces_make_no_difference_and_a_bit_does) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i);
  const uint64_t whole = checksum_of(text, text.size());
  for (size_t piece = 1; piece < 100; ++piece) CHECK_SAME(checksum_of(text, piece), whole);
  for (size_t at : {size_t{0}, size_t{31}, size_t{500}, text.size() - 1}) {
    std::string other = text;
    other[at] ^= 1;
    CHECK(checksum_of(other, 64) != whole);
  }
}

int main() { return opscope::tests::run_all(); }
