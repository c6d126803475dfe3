// Tables as the decoder fills them in: every column has as many rows as the others.
#include <stdexcept>
#include <string>

#include "check.h"
#include "schema/tables.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

ScriptCallColumns with_rows(int32_t rows) {
  ScriptCallColumns calls;
  calls.for_each_column([&](const char*, auto& column, bool) {
    for (int32_t row = 0; row < rows; ++row) column.push_back(row);
  });
  return calls;
}

// What is wrong with a table; empty if nothing is.
template <typename Table>
std::string fault_of(Table table) {
  try {
    check_lengths(AnyTable(table));
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(columns_of_one_length_are_a_table) {
  CHECK_SAME(fault_of(ScriptCallColumns()), std::string());
  CHECK_SAME(fault_of(with_rows(3)), std::string());
}

TEST(a_forgotten_column_is_named_with_one_to_compare_it_to) {
  ScriptCallColumns calls = with_rows(3);
  calls.functions.clear();
  const std::string fault = fault_of(calls);
  CHECK(fault.find("script_calls.functions 0 rows and script_calls.event 3") != std::string::npos);
}

TEST(a_column_with_a_row_too_many_is_found) {
  ScriptCallColumns calls = with_rows(3);
  calls.modules.push_back(7);
  CHECK(fault_of(calls).find("script_calls.modules 4 rows") != std::string::npos);
}

TEST(lists_have_the_rows_that_were_ended) {
  ParameterColumns parameters;
  parameters.for_each_column([](const char*, auto& column, bool) {
    if constexpr (requires { column.end_row(); }) {
      column.end_row();
    } else {
      column.push_back(1);
    }
  });
  CHECK_SAME(fault_of(parameters), std::string());
  parameters.strides.end_row();
  CHECK(fault_of(parameters).find("parameters.strides 2 rows") != std::string::npos);
}

TEST(a_column_that_may_be_lacking_is_whole_or_not_there) {
  EventColumns events;
  events.for_each_column([](const char*, auto& column, bool may_lack) {
    if (!may_lack) column.assign(2, 0);
  });
  CHECK_SAME(fault_of(events), std::string());
  events.record_function_id.push_back(1);
  CHECK(fault_of(events).find("events.record_function_id 1 rows") != std::string::npos);
}

TEST(truth_values_are_a_column_of_their_own_kind) {
  static_assert(std::is_same_v<decltype(EventColumns::unfinished), FlagColumn>);
  static_assert(std::is_same_v<decltype(EventColumns::kind), std::vector<uint8_t>>);
}

int main() { return run_all(); }
