// A tool as NVTX knows them: writes every range it is told of to the file NVTX_LOG names.
//
// Build: g++ -shared -fPIC nvtx_injection.cpp -o injection.so; run with NVTX_INJECTION64_PATH=it.
// With -DCHECK_AGAINST_NVTX it also holds the numbers below against NVIDIA's headers.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef CHECK_AGAINST_NVTX
#include <nvtx3/nvToolsExt.h>
static_assert(NVTX_CB_MODULE_CORE == 1 && NVTX_CBID_CORE_RangePushA == 9 && NVTX_CBID_CORE_RangePop == 11);
static_assert(NVTX_CBID_CORE_SIZE == 16 && NVTX_CBID_CORE2_SIZE == 16 && NVTX_ETID_CALLBACKS == 1);
static_assert(NVTX_CBID_CUDA_SIZE == 9 && NVTX_CBID_OPENCL_SIZE == 15 && NVTX_CBID_CUDART_SIZE == 7);
static_assert(NVTX_CBID_SYNC_SIZE == 7 && NVTX_ETID_VERSIONINFO == 3);
#endif

namespace {

using Function = void (*)();

struct CallbackTable {
  size_t struct_size;
  int (*get_module_functions)(int module, Function*** table, unsigned* size);
};

std::FILE* log_file() {
  static std::FILE* file = std::fopen(std::getenv("NVTX_LOG"), "w");
  return file;
}

int push(const char* text) {
  std::fprintf(log_file(), "push %s\n", text);
  std::fflush(log_file());
  return 0;
}

int pop() {
  std::fprintf(log_file(), "pop\n");
  std::fflush(log_file());
  return 0;
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const auto* callbacks = static_cast<const CallbackTable*>(export_table(1));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(CallbackTable)) return 0;
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks->get_module_functions(1, &table, &size) == 0 || size <= 11) return 0;
  if (table[0] != nullptr) return 0;  // functions are counted from 1
  *table[9] = reinterpret_cast<Function>(&push);
  *table[11] = reinterpret_cast<Function>(&pop);
  return 1;
}
