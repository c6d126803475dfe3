// Log of one window as bytes: its facts, then its blocks. Valid on any machine of the same byte order.
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

// [reader] Writes part by part, without a copy in memory; `view` may be of a live recorder with running
// threads. `write` and this return 0 or an errno.
int write_log(const LogView& view, const std::function<int(std::string_view)>& write);
// `file`: open for writing.
int write_bytes(int file, std::string_view bytes);

class CopiedLog {
 public:
  // Raises Damage if the bytes are no copy of a log, or one of another version.
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
