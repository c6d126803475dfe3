#include "log/window_facts.h"

namespace opscope {

namespace {

// Calls function(field) for each plain field.
template <typename View, typename Function>
void for_each_field(View& view, Function&& function) {
  function(view.origin);
  function(view.recent_rate);
  function(view.window.wants);
  function(view.window.only_thread);
  function(view.window.process_ids);
  function(view.window.started);
  function(view.window.stopped);
  function(view.window.tensors_not_held);
  function(view.window.unknown_frees);
  function(view.window.of_ending_threads);
  function(view.window.unrecorded_evaluations);
  function(view.window.unhooked_threads);
  function(view.window.process_threads);
}

}  // namespace

void put_window(ByteWriter& out, const LogView& view) {
  for_each_field(view, [&](const auto& field) { out.put(field); });
  out.put_all(view.window.pauses);
  out.put_all(view.window.releases);
  out.put(uint64_t{view.window.initial_stacks.size()});
  for (const InitialStack& stack : view.window.initial_stacks) {
    out.put(stack.native_thread);
    out.put(stack.system_thread_id);
    out.put_all(stack.frames);
  }
  out.put_text(view.window.fault);
  out.put(uint64_t{view.window.notes.size()});
  for (const LedgerNote& note : view.window.notes) {
    out.put_text(note.source);
    out.put_text(note.what);
    out.put(note.value);
  }
}

void get_window(ByteReader& in, LogView& view) {
  for_each_field(view, [&](auto& field) { in.get(field); });
  in.get_all(view.window.pauses);
  in.get_all(view.window.releases);
  in.get_each(view.window.initial_stacks, [&in](InitialStack& stack) {
    in.get(stack.native_thread);
    in.get(stack.system_thread_id);
    in.get_all(stack.frames);
  });
  view.window.fault = in.get_text();
  in.get_each(view.window.notes, [&in](LedgerNote& note) {
    note.source = in.get_text();
    note.what = in.get_text();
    in.get(note.value);
  });
}

}  // namespace opscope
