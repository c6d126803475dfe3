// What decoding reads: texts in journals, lines of functions, a log that was copied into another process.
#include <spawn.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "log/line_table.h"
#include "log/log_copy.h"
#include "log/texts.h"
#include "recording.h"
#include "streaming.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

Texts texts_of(const Journal& journal) { return Texts({blocks_from<JournalBlock>(journal.head())}); }

// Decodes the copied log in one file and writes what it says to the other.
int describe_copy(const std::string& from, const std::string& to) {
  const CopiedLog log(read_file(from));
  std::ofstream(to, std::ios::binary) << described(decode_window(log.view(), {}));
  return 0;
}

void record_everything() {
  note_function_and_module();
  for (int i = 0; i < 3000; ++i) {
    record_some(1);
    call(RecordKind::kPythonCall, 0, 0);
    call(RecordKind::kModuleCall, 0, 0);
    allocation(-64, 4096);
  }
  // Arguments that go on over several blocks.
  open_span("left open", 3, RecordKind::kAnnotation, std::vector<int64_t>(2 * ArenaBlock::kWords, 5));
}

}  // namespace

TEST(texts_are_found_again_by_their_numbers) {
  BlockPool pool;
  Journal journal(pool, 0);
  const std::string large(3 * kBlockBytes, 'x');  // begins in one block and ends in the fourth
  CHECK(journal.append(EntryKind::kName, 1, {"one", "Tensor"}));
  CHECK(journal.append(EntryKind::kName, 0, {large, ""}));
  CHECK(journal.append(EntryKind::kName, 2, {"", ""}));
  for (uint32_t i = 3; i < 20000; ++i) journal.append(EntryKind::kName, i, {"name " + std::to_string(i), ""});
  const Texts texts = texts_of(journal);
  CHECK_SAME(texts.name(1).text, "one");
  CHECK_SAME(texts.name(1).overload, "Tensor");
  CHECK(texts.name(0).text == large);
  CHECK_SAME(texts.name(2).text, "");
  for (uint32_t i = 3; i < 20000; ++i) {
    if (texts.name(i).text != "name " + std::to_string(i)) CHECK(false);
  }
  CHECK_SAME(texts.name(20000).text, "");
  CHECK_SAME(texts.function(0).file, "?");
  journal.forget();
  CHECK_SAME(texts_of(journal).name(1).text, "");
}

TEST(an_entry_without_memory_is_not_there_in_part) {
  BlockPool pool;
  Journal journal(pool, 0);
  journal.append(EntryKind::kName, 0, {"kept", ""});
  pool.set_budget(0);
  size_t appended = 1;
  while (journal.append(EntryKind::kName, static_cast<uint32_t>(appended), {std::string(1000, 'y'), ""}))
    ++appended;
  CHECK(!journal.append(EntryKind::kName, 100000, {std::string(10 * kBlockBytes, 'z'), ""}));
  pool.set_budget(SIZE_MAX);
  CHECK(journal.append(EntryKind::kName, static_cast<uint32_t>(appended), {"later", ""}));
  const Texts texts = texts_of(journal);
  CHECK_SAME(texts.name(0).text, "kept");
  CHECK_SAME(texts.name(static_cast<uint32_t>(appended - 1)).text, std::string(1000, 'y'));
  CHECK_SAME(texts.name(static_cast<uint32_t>(appended)).text, "later");
}

TEST(lines_are_those_of_the_table) {
  // 4 bytes of line 11, 2 without a line, 300 of line 9.
  const std::string lines = {0, 4, 1, 2, -128, char(254), -2, 46, 0};
  CHECK_SAME(line_at(lines, 10, 0), 11);
  CHECK_SAME(line_at(lines, 10, 3), 11);
  CHECK_SAME(line_at(lines, 10, 4), -1);
  CHECK_SAME(line_at(lines, 10, 6), 9);
  CHECK_SAME(line_at(lines, 10, 305), 9);
  CHECK_SAME(line_at(lines, 10, 306), -1);
  CHECK_SAME(line_at(lines, 10, -1), -1);
  CHECK_SAME(line_at("", 10, 0), -1);
  // One unit each: two lines down in one line, far up without columns, none.
  const std::string locations = {1,
                                 static_cast<char>(0x80 | 12 << 3),
                                 1,
                                 2,
                                 static_cast<char>(0x80 | 13 << 3),
                                 static_cast<char>(0x40 | (100 << 1 & 0x3e) | 1),
                                 static_cast<char>(100 << 1 >> 6),
                                 static_cast<char>(0x80 | 15 << 3)};
  CHECK_SAME(line_at(locations, 500, 0), 502);
  CHECK_SAME(line_at(locations, 500, 2), 402);
  CHECK_SAME(line_at(locations, 500, 4), -1);
  CHECK_SAME(line_at(locations, 500, 6), -1);
}

TEST(a_log_that_was_copied_into_another_process_decodes_to_the_same_columns) {
  const uint32_t window = open_window(kAll | kWantPython | kWantModules);
  const ThreadLog& log = *Recorder::this_thread();
  recorder().set_initial_stacks(
      window, {{log.native_thread, log.system_thread_id, {running_call(5, 0, 2, false)}}}, 1);
  record_everything();
  on_another_thread(record_everything);
  recorder().close_window(window);
  std::string copy, here;
  {
    const ReadLock lock(recorder());
    const LogView view = recorder().view_of(*recorder().window(window));
    copy = copy_of(view);
    here = described(decode_window(view, {}));
  }
  recorder().discard_window(window);
  close_span(3);
  CHECK(here.find("step") != std::string::npos);
  CHECK(here.find("Linear_0") != std::string::npos);
  const std::string from = program + "." + std::to_string(getpid()) + ".log", to = from + ".columns";
  std::ofstream(from, std::ios::binary) << copy;
  std::string arguments[] = {program, "--describe", from, to};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(),
                  nullptr};
  pid_t child = -1;
  CHECK_SAME(posix_spawn(&child, program.c_str(), nullptr, nullptr, argv, environ), 0);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_SAME(status, 0);
  CHECK(read_file(to) == here);
  unlink(from.c_str());
  unlink(to.c_str());
}

TEST(bytes_that_are_no_copy_of_a_log_are_refused) {
  const uint32_t window = open_window();
  span("op");
  recorder().close_window(window);
  std::string copy;
  {
    const ReadLock lock(recorder());
    copy = copy_of(recorder().view_of(*recorder().window(window)));
  }
  recorder().discard_window(window);
  const auto is_refused = [](const std::string& bytes) {
    try {
      const CopiedLog log(bytes);
      return false;
    } catch (const std::invalid_argument&) {
      return true;
    }
  };
  CHECK(!is_refused(copy));
  CHECK(is_refused(""));
  CHECK(is_refused("something else"));
  std::string newer = copy;
  ++newer[11];  // the version
  CHECK(is_refused(newer));
  for (const size_t length : {size_t{20}, size_t{60}, size_t{200}, copy.size() / 2, copy.size() - 1})
    CHECK(is_refused(copy.substr(0, length)));
}

int main(int count, char** arguments) {
  program = arguments[0];
  if (count == 4 && std::string(arguments[1]) == "--describe")
    return describe_copy(arguments[2], arguments[3]);
  return opscope::tests::run_all();
}
