// native/fuse: parsing a request from one message, and from the parts of a ring's entry; and
// INIT.

#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuse/handshake.h"
#include "fuse/request.h"

using namespace ffrfs::fuse;

namespace {

using Message = std::vector<std::byte>;

template <typename T> void append(Message& message, const T& structure) {
  const auto bytes = std::as_bytes(std::span(&structure, 1));
  message.insert(message.end(), bytes.begin(), bytes.end());
}

void append(Message& message, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  message.insert(message.end(), bytes.begin(), bytes.end());
}

Message request(Opcode opcode, const Message& body = {}) {
  Message message;
  append(message, InHeader{.len = static_cast<uint32_t>(sizeof(InHeader) + body.size()),
                           .opcode = static_cast<uint32_t>(opcode),
                           .unique = 8,
                           .nodeid = 5,
                           .uid = 1000,
                           .gid = 100,
                           .pid = 1,
                           .total_extlen = 0,
                           .padding = 0});
  message.insert(message.end(), body.begin(), body.end());
  return message;
}

Message bytes_of(std::string_view text) {
  Message message;
  append(message, text);
  return message;
}

std::optional<Request> parsed(const Message& message) {
  const auto header = parse_header(message);
  REQUIRE(header.has_value());
  return parse_message(*header, message);
}

// Parses the message as a ring has it, with the fixed part separate.
std::optional<Request> parsed_in_parts(const Message& message, size_t argument_size) {
  const auto header = parse_header(message);
  REQUIRE(header.has_value());
  const auto body = std::span(message).subspan(sizeof(InHeader));
  Message argument(128);
  std::memcpy(argument.data(), body.data(), argument_size);
  return parse_request(*header, argument, body.subspan(argument_size));
}

const std::string_view kName("a name\0", 7);

}  // namespace

TEST_CASE("a request parses the same in one piece and in parts") {
  Message read;
  append(read, ReadIn{.fh = 0,
                      .offset = 1 << 20,
                      .size = 4096,
                      .read_flags = 0,
                      .lock_owner = 0,
                      .flags = 0,
                      .padding = 0});
  Message getxattr;
  append(getxattr, GetxattrIn{.size = 64, .padding = 0});
  append(getxattr, kName);
  Message open;
  append(open, OpenIn{.flags = 2, .open_flags = 0});

  const Message lookup = request(Opcode::kLookup, bytes_of(kName));
  for (const auto& found : {parsed(lookup), parsed_in_parts(lookup, 0)}) {
    REQUIRE(found.has_value());
    CHECK(found->opcode == Opcode::kLookup);
    CHECK(found->unique == 8);
    CHECK(found->ino == 5);
    CHECK(found->uid == 1000);
    CHECK(found->name == "a name");
  }
  const Message reading = request(Opcode::kRead, read);
  for (const auto& found : {parsed(reading), parsed_in_parts(reading, sizeof(ReadIn))}) {
    REQUIRE(found.has_value());
    CHECK(found->offset == 1 << 20);
    CHECK(found->size == 4096);
  }
  const Message getting = request(Opcode::kGetxattr, getxattr);
  for (const auto& found : {parsed(getting), parsed_in_parts(getting, sizeof(GetxattrIn))}) {
    REQUIRE(found.has_value());
    CHECK(found->size == 64);
    CHECK(found->name == "a name");
  }
  const Message opening = request(Opcode::kOpen, open);
  for (const auto& found : {parsed(opening), parsed_in_parts(opening, sizeof(OpenIn))}) {
    REQUIRE(found.has_value());
    CHECK(found->flags == 2);
  }
}

TEST_CASE("a request that is sent again keeps the mark in its number") {
  Message message = request(Opcode::kGetattr);
  const uint64_t again = (uint64_t{1} << 63) | 8;
  std::memcpy(message.data() + offsetof(InHeader, unique), &again, sizeof again);
  const auto found = parsed(message);
  REQUIRE(found.has_value());
  CHECK(found->unique == again);
}

TEST_CASE("a message whose length differs from its header's is refused") {
  Message message = request(Opcode::kGetattr);
  CHECK(parse_header(message).has_value());
  message.push_back(std::byte{0});
  CHECK(!parse_header(message).has_value());
  message.resize(sizeof(InHeader) - 1);
  CHECK(!parse_header(message).has_value());
  CHECK(!parse_header({}).has_value());
}

TEST_CASE("a request that is too short, or whose name has no end, is refused") {
  CHECK(!parsed(request(Opcode::kLookup)).has_value());
  CHECK(!parsed(request(Opcode::kLookup, bytes_of("endless"))).has_value());
  CHECK(!parsed(request(Opcode::kRead, Message(sizeof(ReadIn) - 1))).has_value());
  CHECK(!parsed(request(Opcode::kReaddirplus)).has_value());
  CHECK(!parsed(request(Opcode::kOpen, Message(4))).has_value());
  CHECK(!parsed(request(Opcode::kGetxattr, Message(sizeof(GetxattrIn)))).has_value());
  CHECK(parsed(request(Opcode::kStatfs)).has_value());
  CHECK(parsed(request(Opcode::kWrite)).has_value());  // refused later, its body unread
}

namespace {

Message init(uint32_t minor, uint64_t flags, size_t size = sizeof(InitIn)) {
  Message message;
  append(message, InitIn{.major = 7,
                         .minor = minor,
                         .max_readahead = 131072,
                         .flags = static_cast<uint32_t>(flags),
                         .flags2 = static_cast<uint32_t>(flags >> 32),
                         .unused = {}});
  message.resize(size);
  return message;
}

constexpr uint64_t kAll = ~uint64_t{0};

}  // namespace

TEST_CASE("INIT accepts the offered flags that are of use, and no others") {
  const auto all = agree(init(45, kAll), {.uring = true, .pages_max = 32});
  REQUIRE(all.has_value());
  CHECK(all->uring);
  CHECK(all->can_do_without_opens);
  CHECK(all->answer.minor == kMinor);
  CHECK(all->answer.max_pages == 32);
  const uint64_t taken = all->answer.flags | uint64_t{all->answer.flags2} << 32;
  CHECK(taken == (kAsyncRead | kExportSupport | kDoReaddirplus | kAsyncDio | kNoOpenSupport |
                  kParallelDirops | kMaxPages | kCacheSymlinks | kNoOpendirSupport | kInitExt |
                  kHasResend | kOverIoUring));
  CHECK(all->has_resend);

  const auto without = agree(init(45, kAll), {.uring = false});
  REQUIRE(without.has_value());
  CHECK(!without->uring);
  CHECK(without->answer.flags2 == kHasResend >> 32);

  const auto none = agree(init(31, 0), {.uring = true});
  REQUIRE(none.has_value());
  CHECK(!none->uring);
  CHECK(!none->can_do_without_opens);
  CHECK(none->answer.minor == 31);
  CHECK(none->answer.flags == 0);
}

TEST_CASE("INIT of a kernel before 7.36 is read without second flags") {
  const auto found = agree(init(35, kAll & ~kInitExt, kInitInSizeMin), {.uring = true});
  REQUIRE(found.has_value());
  CHECK(!found->uring);
  CHECK(found->answer.flags2 == 0);
}

TEST_CASE("the same INIT gets the same answer") {
  const auto one = agree(init(45, kAll), {});
  const auto other = agree(init(45, kAll), {});
  REQUIRE(one.has_value());
  REQUIRE(other.has_value());
  CHECK(std::memcmp(&one->answer, &other->answer, sizeof one->answer) == 0);
}

TEST_CASE("a kernel that is too old, or speaks another version, is refused") {
  CHECK(!agree(init(22, kAll), {}).has_value());
  CHECK(!agree(init(45, kAll, kInitInSizeMin - 1), {}).has_value());
  Message other = init(45, kAll);
  other[0] = std::byte{8};
  CHECK(!agree(other, {}).has_value());
}
