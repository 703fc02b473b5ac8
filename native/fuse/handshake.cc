#include "fuse/handshake.h"

#include <algorithm>
#include <cstring>

namespace ffrfs::fuse {
namespace {

constexpr uint16_t kBackgroundRequestsMax = 64;
constexpr uint32_t kWriteSizeMax = 4096;  // nothing is written; the kernel requires a minimum

// The flags that help with a tree that never changes. Without DO_READDIRPLUS's AUTO, so that a
// listing always fills the kernel's inode cache and stat() needs no request. Without
// AUTO_INVAL_DATA, because files do not change.
constexpr uint64_t kWanted = kAsyncRead | kExportSupport | kDoReaddirplus | kAsyncDio |
                             kNoOpenSupport | kParallelDirops | kMaxPages | kCacheSymlinks |
                             kNoOpendirSupport | kInitExt | kHasResend;

}  // namespace

std::optional<Agreement> agree(std::span<const std::byte> argument, const Wishes& wishes) {
  if (argument.size() < kInitInSizeMin) return std::nullopt;
  InitIn offer{};
  std::memcpy(&offer, argument.data(), std::min(argument.size(), sizeof offer));
  if (offer.major != kMajor || offer.minor < kMinorMin) return std::nullopt;
  uint64_t offered = offer.flags;
  if ((offered & kInitExt) != 0) offered |= uint64_t{offer.flags2} << 32;

  const uint64_t taken = offered & (kWanted | (wishes.uring ? uint64_t{kOverIoUring} : 0));
  constexpr uint64_t no_opens = kNoOpenSupport | kNoOpendirSupport;
  Agreement agreement;
  agreement.can_do_without_opens = (taken & no_opens) == no_opens;
  agreement.uring = (taken & kOverIoUring) != 0;
  agreement.has_resend = (taken & kHasResend) != 0;
  agreement.answer = {.major = kMajor,
                      .minor = std::min(offer.minor, kMinor),
                      .max_readahead = offer.max_readahead,
                      .flags = static_cast<uint32_t>(taken),
                      .max_background = kBackgroundRequestsMax,
                      .congestion_threshold = kBackgroundRequestsMax * 3 / 4,
                      .max_write = kWriteSizeMax,
                      .time_gran = 1,
                      .max_pages = wishes.pages_max,
                      .map_alignment = 0,
                      .flags2 = static_cast<uint32_t>(taken >> 32),
                      .unused = {}};
  return agreement;
}

}  // namespace ffrfs::fuse
