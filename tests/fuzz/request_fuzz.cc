// Messages from the kernel (native/fuse/request.h, handshake.h): any bytes give a request whose
// name lies inside them, or no request.
//
// The input is used as a message from /dev/fuse, whose length is corrected; as the parts of a
// ring's entry; and as the body of INIT.

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "fuse/handshake.h"
#include "fuse/request.h"
#include "fuzz_input.h"

using namespace ffrfs::fuse;
using ffrfs::fuzz::require;

namespace {

constexpr size_t kArgumentSize = 128;

void check(const std::optional<Request>& found, std::span<const std::byte> bytes) {
  if (!found || found->name.empty()) return;
  const auto* const name = reinterpret_cast<const std::byte*>(found->name.data());
  const std::less_equal<const std::byte*> not_behind;
  require(not_behind(bytes.data(), name), "a name begins inside of the request");
  require(not_behind(name + found->name.size() + 1, bytes.data() + bytes.size()),
          "a name ends there, with its NUL");
  require(found->name.find('\0') == found->name.npos, "a name has no NUL");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // On the heap, in memory of its size, so that a sanitizer sees a read beyond it.
  std::vector<std::byte> message(size);
  if (size > 0) std::memcpy(message.data(), data, size);
  require(!parse_header(message) || size >= sizeof(InHeader), "a header is whole");
  (void)agree(message, {.uring = true});
  if (size < sizeof(InHeader)) return 0;
  const auto length = static_cast<uint32_t>(size);
  std::memcpy(message.data(), &length, sizeof length);
  const auto header = parse_header(message);
  require(header.has_value(), "a message of the right length has a header");
  check(parse_message(*header, message), message);
  const auto body = std::span(message).subspan(sizeof(InHeader));
  const size_t argument_size = std::min(kArgumentSize, body.size());
  const std::vector<std::byte> rest(body.begin() + static_cast<ptrdiff_t>(argument_size),
                                    body.end());
  check(parse_request(*header, body.first(argument_size), rest), rest);
  return 0;
}
