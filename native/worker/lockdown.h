// Drops the privileges that a worker does not need, before it reads the first byte of a pack: a
// pack that exploits a bug gains control of a process that can hardly do anything.
//
// From the start: no_new_privs; of root's capabilities only the one that allows reading files of
// other users; no new processes or sockets, no files for writing. Once the packs are open: no
// capability, and no newly opened files. If the kernel refuses a restriction, the worker continues
// without it, with one warning in the log.
//
// Whether processes of the same user may inspect the worker, and whether it dumps core, is not
// changed: it holds only data that this user may read.
//
// Not here: which system calls are allowed (syscall_filter.h), the daemon (mount/privileges.py).
// Threads: capabilities are per thread. Threads that run before the lockdown (rings, which the
// filter forbids to create) drop theirs by themselves.

#pragma once

namespace ffrfs {

// Drops all capabilities of this thread; for threads that were started before the lockdown.
void give_up_capabilities();

class Lockdown {
 public:
  // Must run before the packs are opened.
  Lockdown();
  Lockdown(const Lockdown&) = delete;
  Lockdown& operator=(const Lockdown&) = delete;

  // Must run when the packs are open.
  void tighten();

 private:
  bool is_filtered_ = false;
};

}  // namespace ffrfs
