// INIT: negotiates the kernel's features.
//
// The same INIT gets the same answer in every process, so that one can continue for another.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fuse/protocol.h"

namespace ffrfs::fuse {

struct Wishes {
  bool uring = false;
  uint16_t pages_max = 256;  // in a READ: 1 MiB
};

struct Agreement {
  InitOut answer{};
  bool can_do_without_opens = false;  // OPEN and OPENDIR may be answered with ENOSYS
  bool uring = false;
  bool has_resend = false;  // Connection::resend() works (Linux 6.9)
};

// Returns nullopt if the kernel is too old, or if this is not an INIT.
[[nodiscard]] std::optional<Agreement> agree(std::span<const std::byte> argument,
                                             const Wishes& wishes);

}  // namespace ffrfs::fuse
