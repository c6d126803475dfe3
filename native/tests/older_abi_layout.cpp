// Compiled with libstdc++'s older ABI, like the bridge for torch before 2.7.
#include "log/thread_log.h"

namespace opscope::tests {

size_t thread_log_bytes_in_the_older_abi() { return sizeof(ThreadLog); }

}  // namespace opscope::tests
