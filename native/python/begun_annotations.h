// Annotations that were entered while nothing recorded any, so that a window that opens later has them.
#pragma once

namespace opscope {

// [GIL] The calling thread enters `annotation`, whose name stays where it is until that is forgotten.
void note_begun(const void* annotation, const char* name);
// [GIL] It is left, as often as it was entered. False: it was not entered so.
bool forget_begun(const void* annotation);

}  // namespace opscope
