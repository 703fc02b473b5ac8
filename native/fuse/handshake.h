// INIT: what the kernel offers, and what this server takes of it.
//
// The same INIT gets the same answer in every process: one can go on where another has ended.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fuse/protocol.h"

namespace ffrfs::fuse {

struct Wishes {
  bool uring = false;
  uint16_t pages_max = 256;  // of a READ: 1 MiB
};

struct Agreement {
  InitOut answer{};
  bool can_do_without_opens = false;  // OPEN and OPENDIR may be answered with ENOSYS
  bool uring = false;
};

// nullopt: the kernel is too old, or this is no INIT.
[[nodiscard]] std::optional<Agreement> agree(std::span<const std::byte> argument,
                                             const Wishes& wishes);

}  // namespace ffrfs::fuse
