// Decoding a growing log in pieces gives the same rows as decoding it at once.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "decode/pieces.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

constexpr uint64_t kSeeds = 25;
constexpr uint32_t kWants = kWantOperators | kWantAnnotations | kWantMemory | kWantCalls | kWantNewThreads;

struct What {
  bool ends_out_of_order = false;  // annotations outlive their parents
  bool ends_elsewhere = false;     // and end on another thread
  bool is_filtered = false;        // the window does not want operators
};

// Threads that record at random, with a clock that the test advances.
class Program {
 public:
  Program(uint64_t seed, What what) : random_(seed), what_(what) {
    for (uint64_t i = 0; i < 3; ++i) {
      threads_.push_back(std::make_unique<ThreadLog>(pool_, i, 100 + i, 1000 + i, "thread", watched_));
      threads_.back()->torch_thread_id = i + 1;
    }
    open_.resize(threads_.size());
    for (uint32_t name = 0; name < 5; ++name)
      journal_.append(EntryKind::kName, name, {"name" + std::to_string(name), ""});
    for (uint32_t id = 0; id < 4; ++id)
      journal_.append(EntryKind::kFunction, id, {"file.py", "f" + std::to_string(id), "1", ""});
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

  LogView view() {
    LogView view;
    view.recent_rate = 1;
    view.window.wants = what_.is_filtered ? kWants & ~kWantOperators : kWants;
    view.window.started = {1, 1'000'000'001, 1};
    view.window.stopped = {now_, static_cast<int64_t>(now_) + 1'000'000'000, static_cast<int64_t>(now_)};
    for (size_t i = 0; i < 2; ++i) {
      InitialStack stack{1000 + i * 7, static_cast<int64_t>(100 + i * 7), {}};
      stack.frames = {running_call(kWatchedCall | (50 + i), 0, -1, false),
                      running_call(kWatchedCall | (60 + i), 1, 3, false)};
      view.window.initial_stacks.push_back(stack);
    }
    for (const auto& thread : threads_) {
      view.threads.push_back({facts_of(*thread), 0, thread->log().size(), thread->dropped(),
                              blocks_from<Chunk>(thread->log().head()),
                              blocks_from<ArenaBlock>(thread->arena().head())});
    }
    view.journals.push_back(blocks_from<JournalBlock>(journal_.head()));
    view.texts = Texts(view.journals);
    return view;
  }

  uint64_t now() const { return now_; }
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  // Whether a span has outlived its parent and is still open.
  bool is_waiting() const { return !left_.empty(); }
  void end_all_left() {
    while (is_waiting()) end_left();
  }

 private:
  struct Open {
    uint64_t key;
    RecordKind kind;
  };

  uint64_t tick() { return now_ += 1 + pick(4); }

  void step() {
    const size_t thread = pick(threads_.size());
    std::vector<Open>& open = open_[thread];
    const size_t what = pick(20);
    if (what < 8 && open.size() < 12) {
      begin(thread);
    } else if (what < 15 && !open.empty()) {
      end(thread, open.size() - 1);
    } else if (what == 15 && open.size() > 1 && what_.ends_out_of_order) {
      end(thread, open.size() - 1 - pick(std::min<size_t>(open.size(), 3)));
    } else if (what == 16 && !open.empty() && what_.ends_elsewhere && !is_call(open.back().kind) &&
               threads_[thread]->depth() == open.size()) {
      threads_[(thread + 1) % threads_.size()]->close_span(open.back().key, tick());
      open.pop_back();
    } else if (what == 17 && !left_.empty()) {
      end_left();
    } else if (what == 18 && threads_[0]->depth() == 0) {  // the function's callees end first
      threads_[0]->note_end(kWatchedCall | 60, tick());
    } else if (what == 19) {
      Record* record = threads_[thread]->append(RecordKind::kAllocate);
      record->memory = {pick(5) * 64, static_cast<int64_t>(pick(9)), 0, kNoArena, 0, -1};
      record->ticks = tick();
      threads_[thread]->publish();
    }
  }

  void begin(size_t thread) {
    constexpr RecordKind kKinds[] = {RecordKind::kOperator, RecordKind::kAnnotation, RecordKind::kPythonCall};
    const RecordKind kind = kKinds[pick(3)];
    const uint64_t key = next_key_++ | (kind == RecordKind::kPythonCall ? kWatchedCall : 0);
    Record* record = threads_[thread]->open_span(key);
    record->kind = kind;
    record->scope = 0;
    if (kind == RecordKind::kPythonCall) {
      record->call = {key, static_cast<uint32_t>(pick(4)), 0, 2};
    } else {
      record->op = {key, -1, static_cast<uint32_t>(pick(5)), kNoArena, 0, 0};
    }
    record->ticks = tick();
    threads_[thread]->publish_span();
    open_[thread].push_back({key, kind});
  }

  void end(size_t thread, size_t place) {
    std::vector<Open>& open = open_[thread];
    ThreadLog& log = *threads_[thread];
    log.close_span(open[place].key, tick());
    std::vector<Open> running;
    for (size_t i = place + 1; i < open.size(); ++i) {
      if (log.is_open(open[i].key)) {
        running.push_back(open[i]);
      } else {
        left_.push_back({thread, open[i].key});
      }
    }
    open.resize(place);
    open.insert(open.end(), running.begin(), running.end());
  }

  void end_left() {
    const size_t i = pick(left_.size());
    threads_[left_[i].first]->close_span(left_[i].second, tick());
    left_.erase(left_.begin() + static_cast<ptrdiff_t>(i));
  }

  std::mt19937_64 random_;
  const What what_;
  BlockPool pool_;
  const std::atomic<bool> watched_{true};
  Journal journal_{pool_, 0};
  std::vector<std::unique_ptr<ThreadLog>> threads_;
  std::vector<std::vector<Open>> open_;
  std::vector<std::pair<size_t, uint64_t>> left_;
  uint64_t now_ = 1;
  uint64_t next_key_ = 100;
};

// Rows of a table as text, with names instead of their numbers.
struct Rows {
  std::vector<std::string> events;
  std::vector<std::string> others;
};

template <typename Table>
void describe(const Table& table, const ThreadColumns& threads, const LocalNames& names,
              std::vector<std::string>& rows) {
  Table copy = table;
  size_t count = 0;
  copy.for_each_column([&](const char*, auto& column, bool) { count = std::max(count, rows_of(column)); });
  for (size_t i = 0; i < count; ++i) {
    std::string text = Table::kTable;
    copy.for_each_column([&](const char* name, auto& column, bool) {
      if constexpr (!requires { column.values; }) {
        if (column.empty() || std::string_view(name).ends_with("_id"))
          return;  // ids of tensors are numbered later
        const auto value = column[i];
        const bool is_name = std::string_view(name) == "name" || std::string_view(name) == "function" ||
                             std::string_view(name) == "file";
        text += std::string(" ") + name + "=";
        if (std::string_view(name) == "thread") {
          text += std::to_string(threads.system_thread_id[static_cast<size_t>(value)]);
          return;
        }
        text += is_name && static_cast<int64_t>(value) >= 0 ? names.text(static_cast<int32_t>(value))
                                                            : std::to_string(+value);
      }
    });
    rows.push_back(text);
  }
}

Rows rows_of_all(const Columns& columns, const ThreadColumns& threads, const LocalNames& names) {
  Rows rows;
  describe(columns.events, threads, names, rows.events);
  describe(columns.allocations, threads, names, rows.others);
  describe(columns.python_calls, threads, names, rows.others);
  describe(columns.frames, threads, names, rows.others);
  return rows;
}

void amend(Columns& whole, const std::vector<WrittenRow>& late) {
  for (const WrittenRow& row : late) {
    const auto i = static_cast<size_t>(row.event);
    whole.events.parent[i] = row.parent;
    whole.events.duration_ns[i] = row.duration_ns;
    whole.events.unfinished[i] = row.unfinished;
    whole.events.raised[i] = row.raised;
    whole.events.is_async[i] = row.is_async;
  }
}

class Pieces {
 public:
  void take(const LogView& whole, uint64_t until, bool anew) {
    LogView log = whole_of(whole);
    for (ThreadView& thread : log.threads) thread.begin = state_.position(thread.facts.number);
    Piece piece(state_, log, until);
    const Columns columns = decode_piece(log, {}, piece);
    whole_.for_each_table([&](auto& table) { append(table, columns); });
    amend(whole_, columns.late);
    late += columns.late.size();
    threads_ = columns.threads;
    if (!anew) return;
    const std::string bytes = state_.bytes();
    LocalNames names = std::move(state_.names);
    state_ = PieceState();
    state_.names = std::move(names);
    state_.restore(bytes);
  }

  Rows rows() const { return rows_of_all(whole_, threads_, state_.names); }
  uint64_t unmatched() const { return state_.unmatched_ends; }
  Columns& columns() { return whole_; }
  const ThreadColumns& threads() const { return threads_; }
  const LocalNames& names() const { return state_.names; }

  size_t late = 0;

 private:
  static LogView whole_of(const LogView& view) {
    LogView log;
    log.origin = view.origin;
    log.recent_rate = view.recent_rate;
    log.window = view.window;
    log.threads = view.threads;
    log.journals = view.journals;
    log.texts = Texts(log.journals);
    return log;
  }

  template <typename Table>
  static void append(Table& table, Columns piece) {
    piece.for_each_table([&](auto& other) {
      if constexpr (std::is_same_v<std::decay_t<decltype(other)>, Table>) append_rows(table, other);
    });
  }

  template <typename Table>
  static void append_rows(Table& table, Table& more) {
    std::map<std::string, void*> columns;
    more.for_each_column([&](const char* name, auto& column, bool) { columns[name] = &column; });
    table.for_each_column([&](const char* name, auto& column, bool) {
      auto& added = *static_cast<std::decay_t<decltype(column)>*>(columns[name]);
      if constexpr (!requires { column.values; }) column.insert(column.end(), added.begin(), added.end());
    });
  }

  PieceState state_;
  Columns whole_;
  ThreadColumns threads_;
};

void compare(uint64_t seed, What what) {
  Program program(seed, what);
  Pieces pieces;
  uint64_t before = 0;
  for (int round = 0; round < 12; ++round) {
    program.run(static_cast<int>(program.pick(120)));
    const uint64_t back = program.pick(3) == 0 ? program.pick(60) : 0;
    if (program.now() <= before + back || program.is_waiting()) continue;
    before = program.now() - back;
    pieces.take(program.view(), before, program.pick(3) == 0);
  }
  program.run(50);
  program.end_all_left();
  const LogView view = program.view();
  pieces.take(view, UINT64_MAX, false);
  const Columns whole = decode_window(view, {});
  const Rows expected = rows_of_all(whole, whole.threads, whole.names);
  const Rows found = pieces.rows();
  const auto check = [seed](const std::vector<std::string>& got, const std::vector<std::string>& wanted) {
    const auto [a, b] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
    if (a == got.end() && b == wanted.end()) return;
    CHECK_SAME(std::to_string(seed) + (a == got.end() ? "" : *a), b == wanted.end() ? std::string() : *b);
  };
  check(found.events, expected.events);
  check(found.others, expected.others);
  CHECK_SAME(pieces.unmatched(), whole.unmatched_ends);
  std::vector<std::string> threads;
  std::vector<std::string> expected_threads;
  describe(pieces.threads(), pieces.threads(), pieces.names(), threads);
  describe(whole.threads, whole.threads, whole.names, expected_threads);
  std::sort(threads.begin(), threads.end());
  std::sort(expected_threads.begin(), expected_threads.end());
  CHECK(threads == expected_threads);
}

TEST(pieces_are_the_rows_that_the_whole_gives) {
  for (const What what :
       {What{}, What{.is_filtered = true}, What{.ends_elsewhere = true}, What{.ends_out_of_order = true}}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) compare(seed, what);
  }
}

}  // namespace

int main() { return opscope::tests::run_all(); }
