// Part of torch_bridge.cpp: redirects calls between torch's libraries to opscope.
//
// torch reports allocations, and begins some spans, only if a thread's slot has an object of its own
// profiler's class. opscope puts nothing there: the program would see it as its own profiler, and torch's
// callbacks would write to it (a span that was open when torch's profiler stopped wrote its end into freed
// memory). Calls between libraries go through pointers in the calling library, which the dynamic linker fills
// in. opscope replaces those pointers, as memray does for malloc; its functions then call torch's.
#pragma once

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace opscope {
namespace {

#if defined(__aarch64__)
constexpr uint32_t kCallSlot = R_AARCH64_JUMP_SLOT;
constexpr uint32_t kDataSlot = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kCallSlot = R_X86_64_JUMP_SLOT;
constexpr uint32_t kDataSlot = R_X86_64_GLOB_DAT;
#endif

struct LinkedCall {
  const char* symbol;
  void* ours;
  bool from_python_library;  // in torch's Python library only
};

// A library in the dynamic linker's list.
class LinkedLibrary {
 public:
  explicit LinkedLibrary(const dl_phdr_info& library) : base_(library.dlpi_addr) {
    for (int i = 0; i < library.dlpi_phnum; ++i) {
      const ElfW(Phdr) & part = library.dlpi_phdr[i];
      const uintptr_t begin = base_ + part.p_vaddr;
      if (part.p_type == PT_DYNAMIC) read(reinterpret_cast<const ElfW(Dyn)*>(begin));
      if (part.p_type == PT_GNU_RELRO) {
        const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        read_only_ = {begin / page * page, (begin + part.p_memsz) / page * page};
      }
      if (part.p_type == PT_LOAD) end_ = std::max(end_, begin + part.p_memsz);
    }
  }

  bool contains(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return base_ <= at && at < end_;
  }

  // Whether it is linked with torch.
  bool needs_torch() const {
    return std::any_of(needed_.begin(), needed_.end(), [this](size_t name) {
      const char* const text = strings_ + name;
      return std::strncmp(text, "libc10", 6) == 0 || std::strncmp(text, "libtorch", 8) == 0;
    });
  }

  // Calls `function` with the name of each imported function and the pointer to it.
  template <typename Function>
  void visit(Function&& function) const {
    if (symbols_ == nullptr || strings_ == nullptr) return;
    visit(calls_, calls_bytes_, function);
    visit(data_, data_bytes_, function);
  }

  // Writes such a pointer. Restores the linker's write protection.
  bool point(void** slot, void* target) const {
    const auto at = reinterpret_cast<uintptr_t>(slot);
    const bool is_read_only = read_only_.begin <= at && at < read_only_.end;
    const uintptr_t page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    auto* const page = reinterpret_cast<void*>(at / page_bytes * page_bytes);
    if (is_read_only && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(slot, target, __ATOMIC_RELEASE);
    if (is_read_only) mprotect(page, page_bytes, PROT_READ);
    return true;
  }

 private:
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };

  // Some linkers leave file addresses in the dynamic section.
  template <typename Type>
  const Type* at(ElfW(Addr) address) const {
    return reinterpret_cast<const Type*>(address < base_ ? base_ + address : address);
  }

  void read(const ElfW(Dyn) * entry) {
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) address = entry->d_un.d_ptr;
      const size_t value = entry->d_un.d_val;
      if (entry->d_tag == DT_SYMTAB) symbols_ = at<ElfW(Sym)>(address);
      if (entry->d_tag == DT_STRTAB) strings_ = at<char>(address);
      if (entry->d_tag == DT_JMPREL) calls_ = at<ElfW(Rela)>(address);
      if (entry->d_tag == DT_PLTRELSZ) calls_bytes_ = value;
      if (entry->d_tag == DT_RELA) data_ = at<ElfW(Rela)>(address);
      if (entry->d_tag == DT_RELASZ) data_bytes_ = value;
      if (entry->d_tag == DT_NEEDED) needed_.push_back(value);
    }
  }

  template <typename Function>
  void visit(const ElfW(Rela) * entries, size_t bytes, Function& function) const {
    if (entries == nullptr) return;
    for (const auto* entry = entries; entry != entries + bytes / sizeof(ElfW(Rela)); ++entry) {
      const uint32_t type = ELF64_R_TYPE(entry->r_info);
      if (type != kCallSlot && type != kDataSlot) continue;
      const char* const name = strings_ + symbols_[ELF64_R_SYM(entry->r_info)].st_name;
      function(name, reinterpret_cast<void**>(base_ + entry->r_offset));
    }
  }

  uintptr_t base_;
  uintptr_t end_ = 0;
  Range read_only_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Rela) * calls_ = nullptr;
  size_t calls_bytes_ = 0;
  const ElfW(Rela) * data_ = nullptr;
  size_t data_bytes_ = 0;
  std::vector<size_t> needed_;
};

// [under the core's mutex]
class LinkedCalls {
 public:
  // Redirects these calls in every library that is loaded now. Never undone: while nothing is recorded,
  // opscope's functions only call torch's.
  static void redirect(const std::vector<LinkedCall>& calls) {
    Search search{calls};
    dl_iterate_phdr(&look_for_changes, &search);
    if (!search.is_changed) return;
    found_.resize(calls.size());
    dl_iterate_phdr(&look_through, &search);
  }

  // Whether any library imports it; `call`: its index in the argument of redirect().
  static bool is_found(size_t call) { return call < found_.size() && found_[call]; }

 private:
  struct Search {
    const std::vector<LinkedCall>& calls;
    bool is_changed = false;
  };

  static int look_for_changes(dl_phdr_info* library, size_t, void* context) {
    const uint64_t loaded = library->dlpi_adds + library->dlpi_subs;
    static_cast<Search*>(context)->is_changed = loaded != loaded_;
    loaded_ = loaded;
    return 1;  // the counts are equal in every library
  }

  static int look_through(dl_phdr_info* info, size_t, void* context) {
    const LinkedLibrary library(*info);
    if (library.contains(reinterpret_cast<void*>(&look_through)))
      return 0;  // skips opscope's own calls of torch
    const bool is_core = std::strstr(info->dlpi_name, "libc10") != nullptr;
    const bool is_python = std::strstr(info->dlpi_name, "libtorch_python") != nullptr;
    if (!is_core && !library.needs_torch()) return 0;
    const auto& calls = static_cast<Search*>(context)->calls;
    library.visit([&](const char* name, void** slot) {
      if (std::strncmp(name, "_ZN3c10", 7) != 0 && std::strncmp(name, "_ZN5torch8profiler", 18) != 0) return;
      for (size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].from_python_library && !is_python) continue;
        if (std::strcmp(name, calls[i].symbol) != 0) continue;
        if (library.point(slot, calls[i].ours)) found_[i] = true;
      }
    });
    return 0;
  }

  static inline uint64_t loaded_ = 0;
  static inline std::vector<bool> found_;
};

}  // namespace
}  // namespace opscope
