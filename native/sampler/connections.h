// Whether this process's connections have something to send that the network has not taken, now.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace opscope {

class Connections {
 public:
  // Looks for those that there are. Of a process with very many files none is found: going over all of them
  // would take longer than what they say is worth.
  void find();
  // Whether there is any of those that were found. `is_behind`: one has bytes that were not sent yet although
  // the receiver had room for them. What was sent and has only not been acknowledged is on its way: of a
  // short message that is said up to 40 ms later.
  bool look(bool& is_behind);

 private:
  struct Known {
    uint64_t receiver_full_us = 0;  // for how long the receiver has had no room so far
  };

  std::unordered_map<int, Known> connections_;  // by descriptor
};

}  // namespace opscope
