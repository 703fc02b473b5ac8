// The system calls that a worker may make: a seccomp filter in the kernel, for all threads.
//
// Two stages. While packs are opened, files may also be opened, for reading. While a mount is
// served nothing is opened any more: what the worker can reach then is what it holds.
//
//   what it needs                          allowed
//   what no program does by accident       ends the process (SIGSYS), and the kernel's audit
//   (starting a program, a socket, …)      log tells it
//   everything else                        ENOSYS, as an older kernel would answer, for which
//                                          a C library of another year has a second way
//
// The second kind must not end a mount that people read: it is a library's habit far more
// often than an attack, and an attacker gets the same refusal. The list is ours, and no
// library's: it is a page of numbers, and its compiler would be one more thing to install.
//
// Not here: capabilities, and when to call this (lockdown.h).

#pragma once

namespace ffrfs {

enum class Stage { kOpening, kServing };

// Adds the filter of that stage to those that the process has: what any of them refuses is
// refused. It cannot be taken away. Needs no_new_privs, or CAP_SYS_ADMIN. Returns 0, or the
// errno with which the kernel refuses it; ENOTSUP on a machine whose numbers are not known.
[[nodiscard]] int install_syscall_filter(Stage stage);

}  // namespace ffrfs
