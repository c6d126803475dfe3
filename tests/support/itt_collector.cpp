// A collector as ITT knows them: writes every task it is told of to the file ITT_LOG names.
//
// Build: g++ -shared -fPIC itt_collector.cpp -o collector.so; run with INTEL_LIBITTNOTIFY64=it.
// Structures are those of ittnotify 3 (ittnotify_types.h, ittnotify_config.h).
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Function {
  const char* name;
  void** pointer;
  void* initial;
  void* none;
  int group;
};

struct Global {
  unsigned char magic[8];
  unsigned long version[3];
  volatile long state[3];
  pthread_mutex_t mutex;
  void* library;
  void* error_handler;
  const char** library_path;
  Function* functions;
};

struct Domain {
  volatile int flags;
  const char* name;
  const wchar_t* wide_name;
  int extra1;
  void* extra2;
  Domain* next;
};

struct String {
  const char* text;
  const wchar_t* wide_text;
  int extra1;
  void* extra2;
  String* next;
};

struct Id {
  unsigned long long parts[3];
};

std::FILE* log_file() {
  static std::FILE* file = std::fopen(std::getenv("ITT_LOG"), "w");
  return file;
}

Domain* create_domain(const char* name) { return new Domain{1, strdup(name), nullptr, 0, nullptr, nullptr}; }
String* create_string(const char* text) { return new String{strdup(text), nullptr, 0, nullptr, nullptr}; }

void begin(const Domain* domain, Id, Id, String* name) {
  std::fprintf(log_file(), "begin %s: %s\n", domain->name, name->text);
  std::fflush(log_file());
}

void end(const Domain*) {
  std::fprintf(log_file(), "end\n");
  std::fflush(log_file());
}

void* named(const char* name) {
  if (std::strcmp(name, "__itt_domain_create") == 0) return reinterpret_cast<void*>(&create_domain);
  if (std::strcmp(name, "__itt_string_handle_create") == 0) return reinterpret_cast<void*>(&create_string);
  if (std::strcmp(name, "__itt_task_begin") == 0) return reinterpret_cast<void*>(&begin);
  if (std::strcmp(name, "__itt_task_end") == 0) return reinterpret_cast<void*>(&end);
  return nullptr;
}

}  // namespace

extern "C" void __itt_api_init(Global* global, int) {
  for (Function* function = global->functions; function->name != nullptr; ++function) {
    if (void* ours = named(function->name)) *function->pointer = ours;
  }
}
