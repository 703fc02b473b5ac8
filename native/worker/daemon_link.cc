#include "worker/daemon_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fuse/log.h"
#include "io/error.h"
#include "io/little_endian.h"

namespace ffrfs {
namespace {

constexpr size_t kMessageSizeMax = 60'000;
constexpr char kConnection = 'c';
constexpr char kHints = 'h';
constexpr char kLimit = 'l';
constexpr char kPushed = 'p';
constexpr char kWarm = 'w';
constexpr char kFetcher = 'f';

}  // namespace

void DaemonLink::send_notice(const std::string& line) { send({"notice", line}); }

void DaemonLink::send_unverified(const std::string& path) { send({"unverified", path}); }

void DaemonLink::send_file(const std::string& path, const std::string& identity) {
  send({"file", path, identity});
}

void DaemonLink::send_opened() { send({"opened"}); }

void DaemonLink::send_failed(const std::exception_ptr& error) {
  const ErrorFields fields = fields_of(error);
  send({"failed", fields.kind, fields.reason, fields.path,
        fields.record ? std::to_string(*fields.record) : "", std::to_string(fields.code)});
}

void DaemonLink::send(const std::vector<std::string>& texts) {
  std::string message;
  for (const std::string& text : texts) {
    message.append(text, 0, std::min(text.size(), kMessageSizeMax - message.size()));
    message += '\0';
  }
  // If the daemon has ended, the receiving thread will notice.
  [[maybe_unused]] const ssize_t sent =
      ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL);
}

FileDescriptor DaemonLink::receive_connection() {
  while (std::optional<Message> message = receive()) {
    if (message->kind == kConnection && !message->carried.valid()) {
      throw StorageError(EMFILE, "", "cannot take the connection");
    }
    if (message->kind == kConnection) return std::move(message->carried);
    if (message->number) {
      early_limits_.push_back({.kind = message->kind, .number = message->number, .carried = {}});
    }
    take(std::move(*message));
  }
  return {};
}

void DaemonLink::wait_for_end(const Heard& heard) {
  for (const Message& early : early_limits_) take_number(early, heard);
  while (std::optional<Message> message = receive()) {
    if (message->kind == kHints && message->carried.valid()) {
      heard.take_hints(std::move(message->carried));
    } else if (!take_number(*message, heard)) {
      take(std::move(*message));
    }
  }
}

bool DaemonLink::take_number(const Message& message, const Heard& heard) {
  if (!message.number) return false;
  if (message.kind == kLimit) heard.limit_cache(*message.number);
  if (message.kind == kPushed) heard.limit_pushed(*message.number);
  if (message.kind == kWarm) heard.warm(*message.number);
  return true;
}

// Handles messages that may come at any time.
void DaemonLink::take(Message message) {
  if (message.kind == kFetcher && message.carried.valid() && take_fetcher_) {
    take_fetcher_(std::move(message.carried));
  }
}

std::optional<DaemonLink::Message> DaemonLink::receive() {
  Message received;
  std::array<std::byte, sizeof(uint64_t)> number{};
  std::array<iovec, 2> data{{{&received.kind, 1}, {number.data(), number.size()}}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = data.data();
  message.msg_iovlen = data.size();
  message.msg_control = control;
  // CMSG_LEN, because CMSG_SPACE has room for two descriptors: the kernel closes all but the first.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t size = 0;
  do {
    size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  if (static_cast<size_t>(size) == 1 + number.size()) received.number = load_le<uint64_t>(number);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    received.carried = FileDescriptor(fd);
  } else if ((message.msg_flags & MSG_CTRUNC) != 0) {  // what it carried is lost
    log_line(Priority::kError, "no descriptor is left for what the daemon sends: raise that limit "
                               "(ulimit -n, or LimitNOFILE= of a service)");
  }
  return received;
}

}  // namespace ffrfs
