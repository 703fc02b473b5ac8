// A request of the kernel, parsed: every length in it was checked.
//
// Two ways lead here: one message that was read from /dev/fuse, and the parts of a ring's entry.
// No state: any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "fuse/protocol.h"

namespace ffrfs::fuse {

struct Request {
  Opcode opcode{};
  uint64_t unique = 0;  // the answer repeats it
  uint64_t ino = 0;
  uint32_t uid = 0;  // of who asks
  // What the opcode has of these, else 0:
  uint64_t offset = 0;
  uint32_t size = 0;
  uint32_t flags = 0;      // of open(2)
  std::string_view name{};  // in the memory that it was parsed from
};

// Of one message, with all that follows. nullopt: it is shorter than a header, or its length is
// not what it says: nobody can be answered.
[[nodiscard]] std::optional<InHeader> parse_header(std::span<const std::byte> message);

// `argument`: the opcode's fixed part, at least; `rest`: what follows it. nullopt: the kernel
// cannot have meant that.
[[nodiscard]] std::optional<Request> parse_request(const InHeader& header,
                                                   std::span<const std::byte> argument,
                                                   std::span<const std::byte> rest);

// The same of one message that has that header.
[[nodiscard]] std::optional<Request> parse_message(const InHeader& header,
                                                   std::span<const std::byte> message);

}  // namespace ffrfs::fuse
