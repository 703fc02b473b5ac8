#include "fuse/daemon_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

constexpr size_t kMessageSizeMax = 60'000;
constexpr char kConnection = 'c';
constexpr char kHints = 'h';

// The names are those of ffrfs/errors.py, or of Python's own.
std::vector<std::string> description(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UnsafeIndexError& known) {
    return {"UnsafeIndexError", known.what()};
  } catch (const TruncatedError& known) {
    return {"TruncatedError", known.what()};
  } catch (const FormatError& known) {
    return {"FormatError", known.what()};
  } catch (const ChecksumError& known) {
    return {"ChecksumError", known.what()};
  } catch (const StorageError& known) {
    return {"OSError", known.reason(), std::to_string(known.code()), known.path()};
  } catch (const std::bad_alloc&) {
    return {"MemoryError", "out of memory"};
  } catch (const std::exception& unknown) {
    return {"RuntimeError", unknown.what()};
  }
}

}  // namespace

void DaemonLink::send_notice(const std::string& line) { send({"notice", line}); }

void DaemonLink::send_unverified(const std::string& path) { send({"unverified", path}); }

void DaemonLink::send_opened() { send({"opened"}); }

void DaemonLink::send_failed(const std::exception_ptr& error) {
  std::vector<std::string> texts = description(error);
  texts.insert(texts.begin(), "failed");
  send(texts);
}

void DaemonLink::send(const std::vector<std::string>& texts) {
  std::string message;
  for (const std::string& text : texts) {
    message.append(text, 0, std::min(text.size(), kMessageSizeMax - message.size()));
    message += '\0';
  }
  // That the daemon has gone is noticed when it is listened to.
  [[maybe_unused]] const ssize_t sent =
      ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL);
}

FileDescriptor DaemonLink::receive_connection() {
  std::optional<Message> message = receive();
  if (!message || message->kind != kConnection) return {};
  return std::move(message->carried);
}

void DaemonLink::wait_for_end(const std::function<void(FileDescriptor)>& take_hints) {
  while (std::optional<Message> message = receive()) {
    if (message->kind == kHints && message->carried.valid()) {
      take_hints(std::move(message->carried));
    }
  }
}

std::optional<DaemonLink::Message> DaemonLink::receive() {
  Message received;
  iovec data{&received.kind, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  // Less than its size, which has room for two: the kernel closes all but the first.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  ssize_t size = 0;
  do {
    size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    received.carried = FileDescriptor(fd);
  }
  return received;
}

}  // namespace ffrfs
