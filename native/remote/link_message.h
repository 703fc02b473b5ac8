// The messages between a process and the fetcher (ffrfs/remote): one message a datagram,
// little-endian, at most 64 KiB.
//
//   we → fetcher   OPEN a URL, LIST a directory; WANT blocks, SOON, AGAIN; USED, CANCEL, CLOSE
//   fetcher → we   OPENED with two descriptors, LISTED, READY, FAILED, MOVED with two descriptors
//
// Each received message is validated here, as far as that is possible without the others.
// Not here: which request an answer belongs to (object_link.h); the two files (cached_files.h).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_descriptor.h"

namespace ffrfs::remote {

enum class Ask : uint32_t {
  kOpen = 1,
  kList = 2,
  kWant = 3,
  kSoon = 4,
  kAgain = 5,
  kUsed = 6,
  kCancel = 7,
  kClose = 8,
};

enum class Told : uint32_t { kOpened = 1, kListed = 2, kReady = 3, kFailed = 4, kMoved = 5 };

// Consecutive blocks of an object; at least one.
struct BlockRange {
  static constexpr uint64_t kCountMax = 4096;
  uint64_t first = 0;
  uint64_t count = 0;
};

struct Answer {
  Told kind{};
  uint32_t object = 0;
  uint64_t id = 0;
  // OPENED
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t block_size = 0;
  std::string pin{};
  // OPENED, MOVED; neither is valid if this process had no descriptor free for them
  FileDescriptor data{};
  FileDescriptor state{};
  // LISTED
  bool has_more = false;
  std::vector<std::string> urls{};
  // FAILED
  std::string error_class{};
  std::string line{};
};

class LinkSocket {
 public:
  static constexpr size_t kMessageSizeMax = 65536;

  LinkSocket() = default;
  explicit LinkSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] bool valid() const { return socket_.valid(); }
  [[nodiscard]] int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

  // send() and receive() never wait.
  enum class Sent { kYes, kFull, kEnded };
  [[nodiscard]] Sent send(std::span<const std::byte> message) const;
  enum class Got { kAnswer, kNothing, kEnd, kNonsense };
  // `memory` has kMessageSizeMax bytes.
  [[nodiscard]] Got receive(std::span<std::byte> memory, Answer& answer) const;

 private:
  FileDescriptor socket_;
};

using Message = std::vector<std::byte>;
[[nodiscard]] Message make_message(Ask ask, uint32_t object, uint64_t id);
[[nodiscard]] Message make_range(Ask ask, uint32_t object, uint64_t id, BlockRange range);
// `second` follows after a zero byte.
[[nodiscard]] Message make_text(Ask ask, uint32_t object, uint64_t id, std::string_view first,
                                std::optional<std::string_view> second = std::nullopt);

// Returns nullopt if no answer has these bytes, or comes with these descriptors. `are_lost`: some
// did not fit into this process, and `carried` is not looked at.
[[nodiscard]] std::optional<Answer> parse_answer(std::span<const std::byte> message,
                                                 std::vector<FileDescriptor> carried,
                                                 bool are_lost = false);

}  // namespace ffrfs::remote
