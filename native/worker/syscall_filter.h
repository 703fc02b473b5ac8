// The system calls that a worker may make: a seccomp filter in the kernel, for all threads.
//
// Two stages. While packs are opened, files may also be opened, for reading. While a mount is
// served, nothing can be opened: the worker reaches only its open descriptors.
//
//   what it needs                          allowed
//   what no program does by accident       kills the process (SIGSYS), and the kernel's audit
//   (starting a program, a socket, …)      log records it
//   everything else                        ENOSYS, as from an older kernel, for which another
//                                          version of the C library has a fallback
//
// The third kind must not kill a mount that is being read: it is far more often a library's habit
// than an attack, and an attacker is refused, too. The list is written by hand, not with
// libseccomp: it is one page of numbers, and a library would be one more dependency.
//
// Not here: capabilities, and when to call this (lockdown.h).

#pragma once

namespace ffrfs {

enum class Stage { kOpening, kServing };

// Adds the filter of that stage to those of the process: a call has to pass them all, and none can
// be removed. Needs no_new_privs, or CAP_SYS_ADMIN. Returns 0, or the errno with which the kernel
// refuses it; ENOTSUP on a machine whose numbers are not known.
[[nodiscard]] int install_syscall_filter(Stage stage);

}  // namespace ffrfs
