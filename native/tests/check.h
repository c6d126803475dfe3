// Minimal test framework: named tests, checks that print both sides, and run_all(), which reports the
// failures.
#pragma once

#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace opscope::tests {

struct Test {
  const char* name;
  std::function<void()> run;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(const char* name, std::function<void()> run) { tests().push_back({name, std::move(run)}); }
};

inline void fail(const char* file, int line, const std::string& what) {
  std::printf("%s:%d: %s\n", file, line, what.c_str());
  ++failures();
}

template <typename T>
std::string text_of(const T& value) {
  std::ostringstream text;
  if constexpr (requires { text << value; }) {
    text << value;
  } else {
    text << "[";
    for (const auto& item : value) text << text_of(item) << " ";
    text << "]";
  }
  return text.str();
}

template <typename A, typename B>
void check_same(const A& got, const B& expected, const char* file, int line) {
  if (got == static_cast<A>(expected)) return;
  fail(file, line, "got " + text_of(got) + ", expected " + text_of(static_cast<A>(expected)));
}

inline int run_all() {
  for (const Test& test : tests()) {
    const int before = failures();
    test.run();
    std::printf("%s %s\n", failures() == before ? "ok    " : "FAILED", test.name);
  }
  std::printf("%zu tests, %d failed checks\n", tests().size(), failures());
  return failures() == 0 ? 0 : 1;
}

}  // namespace opscope::tests

#define TEST(name)                                                                \
  static void test_##name();                                                      \
  static const opscope::tests::Registration register_##name(#name, &test_##name); \
  static void test_##name()
#define CHECK(condition) \
  ((condition) ? (void)0 : opscope::tests::fail(__FILE__, __LINE__, "not true: " #condition))
#define CHECK_SAME(got, ...) opscope::tests::check_same((got), __VA_ARGS__, __FILE__, __LINE__)
