// Files of recordings, and states between two pieces, with random damage: each is read or rejected as damage.
// `test_damage COUNT SEED [LOG]` tries more, also with the log of a real program.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "decode/pieces.h"
#include "log/bytes.h"
#include "log/log_copy.h"
#include "log/streamed_log.h"
#include "streaming.h"

using namespace opscope;
using namespace opscope::tests;

// No number in a file may allocate more memory than the file's contents need.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }

namespace {

size_t cases = 500;
uint64_t seed = 1;
std::string given_log;

class Damaging {
 public:
  explicit Damaging(uint64_t number) : random_(seed * 1'000'003 + number) {}

  std::string operator()(std::string bytes) {
    for (uint64_t times = 1 + below(4); times > 0 && bytes.size() > 16; --times) change(bytes);
    return bytes;
  }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  // Most of a block is unused: prefers bytes that are not zero.
  size_t place(const std::string& bytes, size_t size) {
    size_t at = 0;
    for (int tries = 0; tries < 100; ++tries) {
      at = below(bytes.size() / size) * size;
      if (bytes.compare(at, size, std::string(size, '\0')) != 0) break;
    }
    return at;
  }

  void change(std::string& bytes) {
    static constexpr uint64_t kNumbers[] = {
        0,          1,          255,        100'000,   INT32_MAX,         uint64_t{1} << 31, UINT32_MAX - 1,
        UINT32_MAX, 1ULL << 33, 1ULL << 60, INT64_MAX, uint64_t{1} << 63, UINT64_MAX};
    const uint64_t way = below(10);
    if (way == 0) return bytes.resize(below(bytes.size()));
    if (way == 1) {
      const size_t from = place(bytes, 8), to = place(bytes, 8);
      return void(bytes.replace(to, 48, bytes, from, 48));
    }
    if (way < 5) {
      const size_t at = place(bytes, 1);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 + below(255)));
      return;
    }
    const size_t size = way < 8 ? 8 : 4;
    const size_t at = place(bytes, size);
    uint64_t number = kNumbers[below(std::size(kNumbers))];
    if (way % 3 == 0) {
      std::memcpy(&number, bytes.data() + at, size);
      number += below(17) - 8;
    }
    std::memcpy(bytes.data() + at, &number, size);
  }

  std::mt19937_64 random_;
};

// A span with arguments of every kind, nested in each other.
void span_with_arguments(uint64_t key) {
  ThreadLog* log = Recorder::this_thread();
  open_span("all", key);
  Record* record = log->append(RecordKind::kOutputs);
  Arena& arena = log->arena();
  const double number = 1.5;
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  TensorDetail detail{6, 0, 0, -1, 2, kHasStrides};
  const std::vector<uint64_t> words = {make_head(6, 1),
                                       make_tag(Tag::kTensor, pack(detail)),
                                       1,
                                       2,
                                       3,
                                       0,
                                       0x300000002,
                                       0x100000003,
                                       make_tag(Tag::kSequence, 1 | 3 << 1),
                                       make_tag(Tag::kInt, short_int(-3)),
                                       make_tag(Tag::kSequence, 2 << 1),
                                       make_tag(Tag::kDouble),
                                       bits,
                                       make_tag(Tag::kNone),
                                       make_tag(Tag::kTensorList, 1),
                                       make_tag(Tag::kUndefined),
                                       make_tag(Tag::kIntList, 2 | 2 << 24),
                                       4,
                                       5,
                                       make_tag(Tag::kComplex),
                                       bits,
                                       bits,
                                       make_tag(Tag::kSequence, 2 << 1),
                                       make_tag(Tag::kBool, 1),
                                       make_tag(Tag::kLongInt),
                                       77,
                                       make_tag(Tag::kDevice, 1),
                                       make_tag(Tag::kString, 3),
                                       0x616161,
                                       make_tag(Tag::kOther, 9),
                                       0x6261626162616261,
                                       0x63};
  arena.begin();
  std::memcpy(arena.reserve(words.size()), words.data(), words.size() * sizeof(uint64_t));
  arena.advance(words.size());
  record->results = {arena.commit()};
  record->ticks = now_ticks();
  log->publish();
  close_span(key);
}

void record_everything() {
  note_function_and_module();
  for (int i = 0; i < 40; ++i) {
    record_some(1);
    span_with_arguments(7);
    call(RecordKind::kPythonCall, 0, 0);
    call(RecordKind::kModuleCall, 0, 0);
  }
  open_span("left open", 3, RecordKind::kAnnotation, std::vector<int64_t>(ArenaBlock::kWords, 5));
  open_span("ended late", 4, RecordKind::kAnnotation);
  close_span(3);
  close_span(4);
  open_span("goes on", 5, RecordKind::kAnnotation);
}

constexpr uint32_t kEverything = kAll | kWantPython | kWantModules | kWantOutputs;

// Checks that columns that refer to rows refer to existing rows.
void check_columns(const Columns& columns) {
  const EventColumns& events = columns.events;
  for (size_t i = 0; i < events.parent.size(); ++i)
    if (events.parent[i] >= static_cast<int32_t>(i)) return CHECK(false);
  for (const int32_t name : events.name)
    if (name < 0 || static_cast<size_t>(name) >= columns.names.size()) return CHECK(false);
  for (const int32_t event : columns.tensors.event)
    if (event < 0 || static_cast<size_t>(event) >= events.name.size()) return CHECK(false);
}

struct Ends {
  size_t read = 0;
  size_t refused = 0;
};

// Reads damaged bytes; the result may be anything, and only Damage may be raised.
template <typename Function>
void try_all(const std::string& whole, const char* what, Function&& read) {
  Ends ends;
  for (size_t number = 0; number < cases; ++number) {
    const std::string bytes = Damaging(number)(whole);
    try {
      read(bytes);
      ++ends.read;
    } catch (const Damage&) {
      ++ends.refused;
    } catch (const NothingRecorded&) {
      ++ends.refused;
    }
  }
  std::printf("%s: %zu read, %zu refused\n", what, ends.read, ends.refused);
  CHECK(ends.refused > cases / 100);
  CHECK(ends.read > cases / 100);
}

std::string copy_of_recording() {
  if (!given_log.empty()) return read_file(given_log);
  const uint32_t window = open_window(kEverything);
  record_everything();
  recorder().close_window(window);
  std::string copy;
  {
    const ReadLock lock(recorder());
    copy = copy_of(recorder().view_of(*recorder().window(window)));
  }
  recorder().discard_window(window);
  close_span(5);
  return copy;
}

// A file in memory with its own name: opscope opens no links, such as those in /proc.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(mkstemp(path_.data())) {
    const ssize_t written = write(file_, bytes.data(), bytes.size());
    CHECK_SAME(written, static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    close(file_);
    unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/opscope-damaged-XXXXXX";
  const int file_;
};

std::string file_of_recording() {
  Streaming stream(kAnySize, kEverything);
  record_everything();
  std::string bytes = read_file(stream.path);
  close_span(5);
  return bytes.substr(0, 8 * kBlockBytes);
}

}  // namespace

TEST(a_damaged_copy_is_read_or_refused) {
  try_all(copy_of_recording(), "copies", [](const std::string& bytes) {
    const CopiedLog log(bytes);
    check_columns(decode_window(log.view(), {}));
  });
}

TEST(a_damaged_file_is_read_or_refused) {
  try_all(file_of_recording(), "files", [](const std::string& bytes) {
    const MemoryFile file(bytes);
    const StreamedLog log(file.path());
    check_columns(decode_window(log.view(), {}));
  });
}

TEST(what_decoding_goes_on_with_is_taken_or_refused) {
  const MemoryFile file(file_of_recording());
  PieceState first;
  {
    StreamedLog log(file.path());
    Piece piece(first, log.view(), log.moment_of(200));
    decode_piece(log.view(), {}, piece);
  }
  CHECK(first.events > 0);
  try_all(first.bytes(), "states", [&](const std::string& bytes) {
    PieceState state;
    for (size_t row = 0; row < first.names.size(); ++row)
      state.names.add(first.names.text(static_cast<int32_t>(row)));
    state.restore(bytes);
    StreamedLog log(file.path(), state.drained());
    log.narrow(state.drained(), UINT64_MAX);
    Piece piece(state, log.view(), UINT64_MAX);
    decode_piece(log.view(), {}, piece);
  });
}

int main(int count, char** arguments) {
  program = arguments[0];
  if (count > 1) cases = std::stoul(arguments[1]);
  if (count > 2) seed = std::stoul(arguments[2]);
  if (count > 3) given_log = arguments[3];
  return run_all();
}
