#include "worker/syscall_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace ffrfs {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kMachine = 0;
#endif

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;
constexpr uint32_t kEnd = SECCOMP_RET_KILL_PROCESS;

// Newer than the C library's headers may be (see io/local_file.cc).
constexpr int kCachestat = 451;

// Calls that are allowed whatever their arguments: the kernel caches the verdict, and skips the
// filter. All calls among them that take a path only report about the file.
constexpr std::initializer_list<int> kServing = {
    // The connection, eventfds, packs: all by descriptor.
    SYS_read,
    SYS_write,
    SYS_writev,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    kCachestat,
    SYS_fadvise64,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_close,
    SYS_fcntl,
    SYS_io_setup,
    SYS_io_submit,
    SYS_io_getevents,
    SYS_io_pgetevents,
    SYS_io_cancel,
    SYS_io_destroy,
    SYS_eventfd2,
    SYS_ppoll,
    // Rings that exist already; a ring's operations are limited by the files that it has.
    SYS_io_uring_enter,
    // Sockets that the daemon passes: its own, those of clients that hint, the fetcher's.
    SYS_recvmsg,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_setsockopt,
    // Memory.
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    // Threads, locks, time.
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_exit,
    SYS_exit_group,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_gettid,
    SYS_getpid,
    SYS_getuid,
    SYS_geteuid,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_sysinfo,
    SYS_getrusage,
    SYS_restart_syscall,
    // Signals: abort() ends the process.
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
#ifdef SYS_poll  // not on aarch64
    SYS_poll,
#endif
#ifdef __SANITIZE_ADDRESS__  // ASan probes memory with a pipe
    SYS_pipe2,
#ifdef SYS_pipe
    SYS_pipe,
#endif
#endif
};

// For finding packs and their indexes, and for reporting the result. The last three are for the
// second stage: dropping the remaining capability, and the filter itself.
constexpr std::initializer_list<int> kOpening = {
    SYS_getdents64, SYS_readlinkat, SYS_faccessat, SYS_fstatfs, SYS_statfs, SYS_getcwd, SYS_getegid,
    SYS_getgid,     SYS_uname,      SYS_prlimit64, SYS_sendto,  SYS_capget, SYS_capset, SYS_seccomp,
#ifdef SYS_readlink
    SYS_readlink,   SYS_access,
#endif
};

// Calls that neither ffrfs nor its libraries make: an attacker controls the worker.
constexpr std::initializer_list<int> kDeadly = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_perf_event_open,
    SYS_init_module,
    SYS_finit_module,
    SYS_kexec_load,
    SYS_add_key,
    SYS_keyctl,
    SYS_setuid,
    SYS_setresuid,
    SYS_open_by_handle_at,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
};

constexpr uint16_t kHasBit = BPF_JMP | BPF_JSET | BPF_K;
constexpr uint16_t kEquals = BPF_JMP | BPF_JEQ | BPF_K;

// Classic BPF, as seccomp(2) takes it. Jumps count from the next instruction.
class Program {
 public:
  Program() {
    load(offsetof(seccomp_data, arch));
    add(kEquals, kMachine, 1, 0);
    give(kEnd);
    load(offsetof(seccomp_data, nr));
#ifdef __x86_64__
    // The numbers of the x32 ABI, which is another way to make the same calls.
    add(BPF_JMP | BPF_JGE | BPF_K, 0x4000'0000, 0, 1);
    give(kEnd);
#endif
  }

  void all(std::initializer_list<int> numbers, uint32_t verdict) {
    for (const int number : numbers) {
      add(kEquals, static_cast<uint32_t>(number), 0, 1);
      give(verdict);
    }
  }

  // Decides by the lower half of one argument, which holds all bits that the filter tests.
  void by_argument(int number, size_t argument, uint16_t test, uint32_t operand, uint32_t if_true,
                   uint32_t if_false) {
    static_assert(std::endian::native == std::endian::little);
    add(kEquals, static_cast<uint32_t>(number), 0, 4);
    load(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
    add(test, operand, 0, 1);
    give(if_true);
    give(if_false);
  }

  [[nodiscard]] int install() {
    give(kUnknown);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    const long result =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    // Above 0: a thread has a filter of its own, and keeps it.
    return result == 0 ? 0 : result > 0 ? EBUSY : errno;
  }

 private:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  void give(uint32_t verdict) { add(BPF_RET | BPF_K, verdict, 0, 0); }
  void add(uint16_t code, uint32_t operand, uint8_t if_true, uint8_t if_false) {
    code_.push_back({code, if_true, if_false, operand});
  }

  std::vector<sock_filter> code_;
};

}  // namespace

int install_syscall_filter(Stage stage) {
  if (kMachine == 0) return ENOTSUP;
  Program program;
  program.all(kServing, kAllow);
  // Allows threads, but no processes. clone3(2) passes its flags in memory, which a filter cannot
  // read; it gets ENOSYS, and the C library falls back to clone(2).
  program.by_argument(SYS_clone, 0, kHasBit, CLONE_THREAD, kAllow, kEnd);
  program.by_argument(SYS_sched_setaffinity, 0, kEquals, 0, kAllow, kRefuse);  // this thread only
  program.by_argument(SYS_tgkill, 0, kEquals, static_cast<uint32_t>(getpid()), kAllow, kRefuse);
  if (stage == Stage::kOpening) {
    constexpr uint32_t writing = O_ACCMODE | O_CREAT | O_TRUNC;
    program.by_argument(SYS_openat, 2, kHasBit, writing, kRefuse, kAllow);
    program.all({SYS_mmap, SYS_mprotect}, kAllow);  // libcrypto may load a module
    program.all(kOpening, kAllow);
  } else {
    program.by_argument(SYS_mmap, 2, kHasBit, PROT_EXEC, kRefuse, kAllow);
    program.by_argument(SYS_mprotect, 2, kHasBit, PROT_EXEC, kRefuse, kAllow);
    program.all({SYS_openat}, kRefuse);
  }
  program.all(kDeadly, kEnd);
  return program.install();
}

}  // namespace ffrfs
