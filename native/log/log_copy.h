// The log of one window as bytes: what is known of it, then its blocks as they are. They mean the same in any
// process on a machine of the same byte order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "log/log_view.h"
#include "log/stream_layout.h"

namespace opscope {

// [reader] Part by part, with no copy of it in memory; `view` may be of a live recorder, whose threads may go
// on. `write` returns 0, or what went wrong as an errno, as this does.
int write_log(const LogView& view, const std::function<int(std::string_view)>& write);
// To a file that is open for writing.
int write_bytes(int file, std::string_view bytes);

class CopiedLog {
 public:
  // Raises Damage where the bytes are no copy of a log, or one of another version.
  explicit CopiedLog(std::string_view bytes);
  CopiedLog(const CopiedLog&) = delete;
  CopiedLog& operator=(const CopiedLog&) = delete;

  const LogView& view() const { return view_; }

 private:
  struct Free {
    void operator()(char* memory) const { operator delete[](memory, std::align_val_t{alignof(BlockHeader)}); }
  };
  void add_block(const BlockHeader& block);

  std::unique_ptr<char[], Free> blocks_;
  LogView view_;
};

}  // namespace opscope
