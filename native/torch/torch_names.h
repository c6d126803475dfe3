// Part of torch_bridge.cpp: the operator of a span, and the id of its name.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "log/core_api.h"
#include "torch/torch_state.h"

namespace opscope {
namespace {

// at::RecordFunction has either the operator's schema or a text, and its interface returns only the text.
// Looking up a text costs more than the rest of recording an operator, so opscope reads the private member
// with the schema, whose address identifies the operator.
#if OPSCOPE_READS_PRIVATE
using NameMember = std::variant<std::string, at::RecordFunction::schema_ref_t> at::RecordFunction::*;
NameMember name_member();
template <NameMember kMember>
struct NameMemberOf {
  friend NameMember name_member() { return kMember; }
};
template struct NameMemberOf<&at::RecordFunction::fn_>;

// Schema of the span's operator; nullptr for other spans.
const c10::FunctionSchema* schema_of(const at::RecordFunction& fn) {
  const auto* schema = std::get_if<at::RecordFunction::schema_ref_t>(&(fn.*name_member()));
  return schema == nullptr ? nullptr : &schema->get();
}
#else
const c10::FunctionSchema* schema_of(const at::RecordFunction&) { return nullptr; }
#endif

// Operators (spans with a schema) never have keyword arguments; spans named in Python and collectives may. If
// schemas are not readable, the name identifies operators.
bool may_have_keywords(const at::RecordFunction& fn, const c10::FunctionSchema* schema) {
  if (schema != nullptr || fn.scope() == at::RecordScope::BACKWARD_FUNCTION) return false;
  return OPSCOPE_READS_PRIVATE != 0 || std::strncmp(fn.name(), "aten::", 6) != 0;
}

// Counts unregistrations of operators: a later schema may have the address of an earlier one, so threads
// forget names by address.
class OperatorGenerations final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override { hot.operator_generation.fetch_add(1); }

  // For the life of the process. Idempotent.
  static void watch() {
    static const auto* handle = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<OperatorGenerations>()));
    (void)handle;
  }
};

// Called once per operator and thread, so the copies of older torch versions do not matter.
template <typename Function>
std::string overload_of(const Function& fn) {
  if constexpr (requires { fn.overload_name(); }) {
    const char* overload = fn.overload_name();
    return overload == nullptr ? "" : overload;
  } else {
    const auto name = fn.operator_name();
    return name ? name->overload_name : "";
  }
}

// Only operators have schemas; where these are not readable, operators are like other spans.
std::string_view text_of(const at::RecordFunction& fn) {
#if OPSCOPE_READS_PRIVATE
  if (const auto* text = std::get_if<std::string>(&(fn.*name_member()))) return *text;
#endif
  return fn.name();
}

uint32_t intern_name(ThreadLog& log, const at::RecordFunction& fn, bool with_overload) {
  try {
    const std::string overload = with_overload ? overload_of(fn) : "";
    const std::string text(text_of(fn));
    const uint32_t known = overload.empty() ? log.names.find(text) : kNoName;
    return known != kNoName ? known : core->intern(&log, text.c_str(), overload.c_str());
  } catch (const std::exception& error) {
    core->fault(error.what());
    return kNoName;
  }
}

// Name of an operator that is new to this thread, or new since operators were unregistered.
[[gnu::cold, gnu::noinline]] uint32_t learn_operator(ThreadLog& log, const at::RecordFunction& fn,
                                                     uint64_t address, uint32_t generation,
                                                     bool with_overload) {
  if (log.source_generation != generation) log.names.forget_addresses();
  log.source_generation = generation;
  const uint32_t id = intern_name(log, fn, with_overload);
  log.names.insert_address(address, id);
  return id;
}

uint32_t name_of(ThreadLog& log, const at::RecordFunction& fn, const c10::FunctionSchema* schema,
                 bool with_overload) {
  if (schema == nullptr) {
    const bool has_overload = with_overload && OPSCOPE_READS_PRIVATE == 0;
    const uint32_t known = has_overload ? kNoName : log.names.find(text_of(fn));
    return known != kNoName ? known : intern_name(log, fn, with_overload);
  }
  const uint32_t generation = hot.operator_generation.load(std::memory_order_relaxed);
  const uint64_t address = reinterpret_cast<uintptr_t>(schema) | (with_overload ? 1 : 0);
  const uint32_t known = log.names.find_address(address);
  if (log.source_generation == generation && known != kNoName) [[likely]]
    return known;
  return learn_operator(log, fn, address, generation, with_overload);
}

}  // namespace
}  // namespace opscope
