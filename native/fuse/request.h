// A parsed request of the kernel: every length in it was checked.
//
// It comes from one message that was read from /dev/fuse, or from the parts of a ring's entry.
// Functions without state; thread-safe.

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
  uint64_t unique = 0;  // to be repeated in the answer
  uint64_t ino = 0;
  uint32_t uid = 0;  // of the caller
  // Set if the opcode has them, otherwise 0:
  uint64_t offset = 0;
  uint32_t size = 0;
  uint32_t flags = 0;      // of open(2)
  std::string_view name{};  // in the memory that it was parsed from
};

// Parses the header of one whole message. Returns nullopt if it is shorter than a header, or its
// length is wrong: then there is no request to answer.
[[nodiscard]] std::optional<InHeader> parse_header(std::span<const std::byte> message);

// `argument`: at least the opcode's fixed part; `rest`: the bytes after it. Returns nullopt if the
// request is malformed.
[[nodiscard]] std::optional<Request> parse_request(const InHeader& header,
                                                   std::span<const std::byte> argument,
                                                   std::span<const std::byte> rest);

// The same for one message that has that header.
[[nodiscard]] std::optional<Request> parse_message(const InHeader& header,
                                                   std::span<const std::byte> message);

}  // namespace ffrfs::fuse
