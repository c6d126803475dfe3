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

TEST(columns_of_one_length_are_a_table_and_others_are_named) {
  CHECK_SAME(fault_of(ScriptCallColumns()), std::string());
  CHECK_SAME(fault_of(with_rows(3)), std::string());
  ScriptCallColumns forgotten = with_rows(3);
  forgotten.functions.clear();
  CHECK(fault_of(forgotten).find("script_calls.functions 0 rows and script_calls.event 3") !=
        std::string::npos);
  ScriptCallColumns too_many = with_rows(3);
  too_many.modules.push_back(7);
  CHECK(fault_of(too_many).find("script_calls.modules 4 rows") != std::string::npos);
}

TEST(lists_have_the_rows_that_were_ended_and_some_columns_may_be_lacking) {
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
  EventColumns events;
  events.for_each_column([](const char*, auto& column, bool may_lack) {
    if (!may_lack) column.assign(2, 0);
  });
  CHECK_SAME(fault_of(events), std::string());
  events.record_function_id.push_back(1);
  CHECK(fault_of(events).find("events.record_function_id 1 rows") != std::string::npos);
}

int main() { return run_all(); }
