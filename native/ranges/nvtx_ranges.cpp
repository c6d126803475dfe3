#include "ranges/nvtx_ranges.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace opscope {

namespace {

using Function = void (*)();
using Slot = Function*;

// How many functions each module of NVTX has, plus one, because their numbers begin with 1.
enum Module : int {
  kCore = 1,
  kCuda = 2,
  kOpenCl = 3,
  kCudaRuntime = 4,
  kCore2 = 5,
  kSync = 6,
  kModules = 7
};
constexpr unsigned kFunctions[kModules] = {0, 16, 9, 15, 7, 16, 7};
constexpr unsigned kMostFunctions = 16;
constexpr unsigned kRangePush = 9;  // of kCore: nvtxRangePushA
constexpr unsigned kRangePop = 11;

Function functions[kModules][kMostFunctions];
Slot tables[kModules][kMostFunctions + 1];

int get_module_functions(int module, Slot** table, unsigned* size) {
  if (module <= 0 || module >= kModules) return 0;
  if (table != nullptr) *table = tables[module];
  if (size != nullptr) *size = kFunctions[module];
  return 1;
}

void set_tool_version(uint32_t) {}

struct CallbackTable {
  size_t struct_size;
  int (*get_module_functions)(int module, Slot** table, unsigned* size);
};
struct VersionTable {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*set_tool_version)(uint32_t);
};

const void* export_table(uint32_t id) {
  static const CallbackTable callbacks = {sizeof(CallbackTable), &get_module_functions};
  static const VersionTable version = {sizeof(VersionTable), 3, 0, &set_tool_version};
  if (id == 1) return &callbacks;
  return id == 3 ? &version : nullptr;
}

using Attach = int (*)(const void* (*)(uint32_t));

Attach find_tool(const char** why_not) {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr) {
    // A tool that is part of the program itself.
    auto* linked = static_cast<Attach*>(dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2_fnptr"));
    if (linked != nullptr && *linked != nullptr) return *linked;
    *why_not =
        "no tool is attached (NVTX_INJECTION64_PATH is not set); run the program under one, as in "
        "`nsys profile --trace=nvtx python ...`";
    return nullptr;
  }
  void* library = dlopen(path, RTLD_LAZY);
  void* attach = library == nullptr ? nullptr : dlsym(library, "InitializeInjectionNvtx2");
  if (attach == nullptr)
    *why_not = "the library NVTX_INJECTION64_PATH names could not be loaded; check that path";
  return reinterpret_cast<Attach>(attach);
}

void push(const char* text) { reinterpret_cast<int (*)(const char*)>(functions[kCore][kRangePush])(text); }
void pop() { reinterpret_cast<int (*)()>(functions[kCore][kRangePop])(); }

const RangeSink sink = {&push, &pop};

const RangeSink* attach_tool(const char** why_not) {
  const Attach attach = find_tool(why_not);
  if (attach == nullptr) return nullptr;
  for (int module = 1; module < kModules; ++module) {
    for (unsigned i = 1; i < kFunctions[module]; ++i) tables[module][i] = &functions[module][i];
  }
  if (attach(&export_table) == 0) {
    *why_not = "the tool NVTX_INJECTION64_PATH names refused to attach; see its own messages";
    return nullptr;
  }
  if (functions[kCore][kRangePush] == nullptr || functions[kCore][kRangePop] == nullptr) {
    *why_not = "the attached tool does not listen to ranges";
    return nullptr;
  }
  return &sink;
}

}  // namespace

const RangeSink* nvtx_ranges(const char** why_not) {
  static std::once_flag once;
  static const RangeSink* found = nullptr;
  static const char* reason = "";
  std::call_once(once, [] { found = attach_tool(&reason); });
  *why_not = reason;
  return found;
}

}  // namespace opscope
