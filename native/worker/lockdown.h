// Gives up what a worker has no need of, before it reads the first byte of a pack: a pack
// that finds a fault in us finds itself in a process that can hardly do anything.
//
// From the beginning: no_new_privs; of root's capabilities the one that lets it read files of
// others; no new processes, sockets, or files for writing. Once the packs are open: no
// capability, and no file that is not open yet. What the kernel refuses to take is left,
// with one warning in the log.
//
// Whether others of the same user may look into the process, and whether it leaves a core, is
// not changed: it holds nothing but what that user may read.
//
// Not here: which system calls are left (syscall_filter.h), the daemon (mount/privileges.py).
// Threads: capabilities are each thread's own. Those that run before the first call (rings, whose
// making the filter forbids) give theirs up by themselves.

#pragma once

namespace ffrfs {

// Of a thread that was started before the lockdown.
void give_up_capabilities();

class Lockdown {
 public:
  // The packs may be opened from now on.
  Lockdown();
  Lockdown(const Lockdown&) = delete;
  Lockdown& operator=(const Lockdown&) = delete;

  // They are open.
  void tighten();

 private:
  bool is_filtered_ = false;
};

}  // namespace ffrfs
