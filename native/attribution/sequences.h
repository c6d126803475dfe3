// Rows by thread and sequence number: a few threads, each with numbers that mostly stand close together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace opscope::attribution {

class RowsByNumber {
 public:
  // The row kept for a thread's number, -1 for none; to be read and written.
  int32_t& at(int64_t thread, int64_t number) {
    if (of_thread_ == nullptr || thread != thread_) {
      thread_ = thread;
      of_thread_ = &threads_[thread];
    }
    return of_thread_->at(number);
  }

 private:
  class Numbers {
   public:
    int32_t& at(int64_t number) {
      if (close_.empty()) first_ = number - kBefore;
      const auto place = static_cast<uint64_t>(number) - static_cast<uint64_t>(first_);
      // Twice as much room as there are numbers so far; what is further away goes elsewhere.
      if (place >= close_.size()) {
        if (place >= 2 * (close_.size() + kBefore)) return far_.try_emplace(number, -1).first->second;
        move_near(place + kBefore);
      }
      return close_[place];
    }

   private:
    static constexpr size_t kBefore = 1024;

    void move_near(size_t size) {
      const size_t before = close_.size();
      close_.resize(size + size / 2, -1);
      if (far_.empty()) return;
      for (size_t place = before; place < close_.size(); ++place) {
        const auto found = far_.find(static_cast<int64_t>(static_cast<uint64_t>(first_) + place));
        if (found != far_.end()) close_[place] = found->second;
      }
    }

    std::vector<int32_t> close_;
    std::unordered_map<int64_t, int32_t> far_;
    int64_t first_ = 0;
  };

  std::unordered_map<int64_t, Numbers> threads_;
  Numbers* of_thread_ = nullptr;  // elements of an unordered map stay where they are
  int64_t thread_ = 0;
};

}  // namespace opscope::attribution
