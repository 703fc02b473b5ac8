#include "remote/link_message.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/little_endian.h"

namespace ffrfs::remote {
namespace {

constexpr size_t kCarriedMax = 2;

template <typename T> void append(Message& message, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));  // little-endian machines only
  message.insert(message.end(), bytes.begin(), bytes.end());
}

void append(Message& message, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  message.insert(message.end(), bytes.begin(), bytes.end());
}

// Parses a message from front to end.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T> [[nodiscard]] bool take(T& value) {
    if (rest_.size() < sizeof(T)) return false;
    value = load_le<T>(rest_);
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }
  // Takes the text before the next zero byte, and the zero byte. Returns false if there is none.
  [[nodiscard]] bool take_text(std::string& text) {
    const std::string_view all = rest();
    const size_t end = all.find('\0');
    if (end == all.npos) return false;
    text = all.substr(0, end);
    rest_ = rest_.subspan(end + 1);
    return true;
  }
  [[nodiscard]] std::string_view rest() const {
    return {reinterpret_cast<const char*>(rest_.data()), rest_.size()};
  }
  [[nodiscard]] bool is_empty() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

bool parse_listed(Reader& reader, Answer& answer) {
  uint32_t more = 0;
  if (!reader.take(more) || more > 1) return false;
  answer.has_more = more == 1;
  while (!reader.is_empty()) {
    if (!reader.take_text(answer.urls.emplace_back())) return false;
  }
  return true;
}

bool parse_body(Reader& reader, Answer& answer) {
  switch (answer.kind) {
    case Told::kOpened:
      if (!reader.take(answer.size) || !reader.take(answer.mtime_ns) ||
          !reader.take(answer.block_size)) {
        return false;
      }
      answer.pin = reader.rest();
      return answer.pin.find('\0') == answer.pin.npos;
    case Told::kListed: return parse_listed(reader, answer);
    case Told::kReady:
    case Told::kMoved: return reader.is_empty();
    case Told::kFailed:
      if (!reader.take_text(answer.error_class)) return false;
      answer.line = reader.rest();
      return true;
  }
  return false;
}

// Takes all descriptors of a message, even a bad one, because they would stay open otherwise.
std::vector<FileDescriptor> take_descriptors(msghdr& message) {
  std::vector<FileDescriptor> carried;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t size = part->cmsg_len - CMSG_LEN(0);
    for (size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
      carried.emplace_back(fd);
    }
  }
  return carried;
}

}  // namespace

Message make_message(Ask ask, uint32_t object, uint64_t id) {
  Message message;
  append(message, static_cast<uint32_t>(ask));
  append(message, object);
  append(message, id);
  return message;
}

Message make_range(Ask ask, uint32_t object, uint64_t id, BlockRange range) {
  Message message = make_message(ask, object, id);
  append(message, range.first);
  append(message, range.count);
  return message;
}

Message make_text(Ask ask, uint32_t object, uint64_t id, std::string_view first,
                  std::optional<std::string_view> second) {
  Message message = make_message(ask, object, id);
  append(message, first);
  if (second) {
    message.push_back(std::byte{0});
    append(message, *second);
  }
  return message;
}

std::optional<Answer> parse_answer(std::span<const std::byte> message,
                                   std::vector<FileDescriptor> carried, bool are_lost) {
  Reader reader(message);
  Answer answer;
  uint32_t kind = 0;
  if (!reader.take(kind) || !reader.take(answer.object) || !reader.take(answer.id)) {
    return std::nullopt;
  }
  answer.kind = static_cast<Told>(kind);
  if (!parse_body(reader, answer)) return std::nullopt;
  const bool brings_files = answer.kind == Told::kOpened || answer.kind == Told::kMoved;
  if (are_lost) return brings_files ? std::optional(std::move(answer)) : std::nullopt;
  if (carried.size() != (brings_files ? kCarriedMax : 0)) return std::nullopt;
  if (brings_files) {
    answer.data = std::move(carried[0]);
    answer.state = std::move(carried[1]);
  }
  return answer;
}

LinkSocket::Sent LinkSocket::send(std::span<const std::byte> message) const {
  iovec data{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  while (sendmsg(fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    const bool is_full = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
    return is_full ? Sent::kFull : Sent::kEnded;
  }
  return Sent::kYes;
}

LinkSocket::Got LinkSocket::receive(std::span<std::byte> memory, Answer& answer) const {
  iovec data{memory.data(), memory.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kCarriedMax * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return errno == EAGAIN ? Got::kNothing : Got::kEnd;
  std::vector<FileDescriptor> carried = take_descriptors(header);
  if (size == 0) return Got::kEnd;
  const bool is_cut = (header.msg_flags & MSG_CTRUNC) != 0;
  // The kernel leaves out descriptors if the process may have no more, or if there were too many.
  const bool are_lost = is_cut && carried.size() < kCarriedMax;
  if ((header.msg_flags & MSG_TRUNC) != 0 || is_cut != are_lost) return Got::kNonsense;
  auto parsed = parse_answer(memory.first(static_cast<size_t>(size)), std::move(carried), are_lost);
  if (!parsed) return Got::kNonsense;
  answer = std::move(*parsed);
  return Got::kAnswer;
}

}  // namespace ffrfs::remote
