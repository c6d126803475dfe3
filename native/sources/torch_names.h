// Part of torch_bridge.cpp: which operator a span is of, and the number of its name.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/api/include/torch/version.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "core_api.h"

namespace opscope {
namespace {

// at::RecordFunction has the operator's schema, or the text of a name, and tells others the text only.
// Finding the text again costs more than everything else recorded of an operator, so what it is made of
// is read where it stands: an explicit instantiation may name a private member. Versions of torch that
// are not known to have this member take the longer way.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
#define OPSCOPE_READS_SCHEMA 1
using NameMember = std::variant<std::string, at::RecordFunction::schema_ref_t> at::RecordFunction::*;
NameMember name_member();
template <NameMember kMember>
struct NameMemberOf {
  friend NameMember name_member() { return kMember; }
};
template struct NameMemberOf<&at::RecordFunction::fn_>;

// The schema of the operator this is a span of; nullptr for everything else.
const c10::FunctionSchema* schema_of(const at::RecordFunction& fn) {
  const auto* schema = std::get_if<at::RecordFunction::schema_ref_t>(&(fn.*name_member()));
  return schema == nullptr ? nullptr : &schema->get();
}
#else
#define OPSCOPE_READS_SCHEMA 0
const c10::FunctionSchema* schema_of(const at::RecordFunction&) { return nullptr; }
#endif

// Only operators have a schema, and its name a "::"; only what was called by name from Python or stands
// for a collective has keyword arguments.
bool may_have_keywords(const at::RecordFunction& fn, const c10::FunctionSchema* schema) {
  if (schema != nullptr || fn.scope() == at::RecordScope::BACKWARD_FUNCTION) return false;
  return OPSCOPE_READS_SCHEMA != 0 || std::strncmp(fn.name(), "aten::", 6) != 0;
}

// Counts how often operators went away, because another may take the place of a schema that is gone.
class OperatorGenerations final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override { current_.fetch_add(1); }

  // For the life of the process. Idempotent.
  static void watch() {
    static const auto* handle = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<OperatorGenerations>()));
    (void)handle;
  }
  static uint32_t current() { return current_.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<uint32_t> current_{0};
};

// Asked for once per operator, so the copies that older versions of torch make do not matter.
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

uint32_t name_by_text(const CoreApi& core, ThreadLog& log, const at::RecordFunction& fn, bool with_overload) {
  const char* text = fn.name();
  const std::string overload = with_overload ? overload_of(fn) : "";
  const uint32_t known = overload.empty() ? log.names.find(text) : kNoName;
  return known != kNoName ? known : core.intern(&log, text, overload.c_str());
}

uint32_t name_of(const CoreApi& core, ThreadLog& log, const at::RecordFunction& fn,
                 const c10::FunctionSchema* schema, bool with_overload) {
  if (schema == nullptr) return name_by_text(core, log, fn, with_overload);
  const uint32_t generation = OperatorGenerations::current();
  if (log.source_generation != generation) [[unlikely]] {
    log.names.forget_addresses();
    log.source_generation = generation;
  }
  const uint64_t address = reinterpret_cast<uintptr_t>(schema) | (with_overload ? 1 : 0);
  const uint32_t known = log.names.find_address(address);
  if (known != kNoName) [[likely]]
    return known;
  const uint32_t id = name_by_text(core, log, fn, with_overload);
  log.names.insert_address(address, id);
  return id;
}

}  // namespace
}  // namespace opscope
