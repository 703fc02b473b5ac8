#include "worker/lockdown.h"

#include <linux/capability.h>
#include <malloc.h>
#include <openssl/evp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>

#include "fuse/log.h"
#include "worker/syscall_filter.h"

namespace ffrfs {
namespace {

// Sanitizers open files and start threads and programs to report an error.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// The capability of this kind that root's daemon has kept. The filter forbids writing.
constexpr uint64_t kReadOthersFiles = uint64_t{1} << CAP_DAC_OVERRIDE;

using CapabilitySets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

void warn(const char* what, int error_number) {
  log_line(Priority::kWarning, std::string("less protected than it could be: ") + what + ": " +
                                   std::generic_category().message(error_number));
}

// Drops all capabilities but `kept` in this thread, and so in those that it starts later.
void keep_capabilities(uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilitySets sets{};
  bool is_done = syscall(SYS_capget, &header, sets.data()) == 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    sets[i].permitted &= static_cast<uint32_t>(kept >> (32 * i));
    sets[i].effective = sets[i].permitted;
    sets[i].inheritable = 0;  // this clears the ambient set, too
  }
  is_done = is_done && syscall(SYS_capset, &header, sets.data()) == 0;
  if (!is_done) warn("it keeps its capabilities", errno);
}

bool filter_syscalls(Stage stage) {
  if (kIsSanitized) return false;
  const int error_number = install_syscall_filter(stage);
  if (error_number != 0) warn("any system call can be made", error_number);
  return error_number == 0;
}

// Makes libraries open files now that they would open at first use, after the lockdown.
void prepare_libraries() {
  // libcrypto reads its configuration: parts of Examples are hashed while they are served.
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  EVP_Digest("", 0, digest.data(), nullptr, EVP_sha256(), nullptr);
#ifdef __GLIBC__
  // malloc() asks for the number of cores in the first thread that allocates, and leaves errno
  // changed if it is refused. This sets the limit that malloc() would compute.
  constexpr int kArenasPerCore = 8;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  mallopt(M_ARENA_MAX, static_cast<int>(cores) * kArenasPerCore);
#endif
}

}  // namespace

void give_up_capabilities() { keep_capabilities(0); }

Lockdown::Lockdown() {
  if (kIsSanitized) {
    log_line(Priority::kInfo, "built under a sanitizer: any system call can be made");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) warn("no_new_privs is refused", errno);
  keep_capabilities(kReadOthersFiles);
  is_filtered_ = filter_syscalls(Stage::kOpening);
}

void Lockdown::tighten() {
  prepare_libraries();
  keep_capabilities(0);
  if (is_filtered_) filter_syscalls(Stage::kServing);
}

}  // namespace ffrfs
