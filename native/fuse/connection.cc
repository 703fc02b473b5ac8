#include "fuse/connection.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "fuse/log.h"

namespace ffrfs::fuse {
namespace {

iovec to_iovec(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

template <typename T> iovec to_iovec(const T& structure) {
  return to_iovec(std::as_bytes(std::span(&structure, 1)));
}

// Returns 0, or an errno.
int write_all(int fd, std::span<const iovec> parts) {
  while (writev(fd, parts.data(), static_cast<int>(parts.size())) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

ssize_t Connection::receive(std::span<std::byte> buffer) const {
  const ssize_t size = read(descriptor_.get(), buffer.data(), buffer.size());
  if (size > 0) return size;
  // ENOENT: the kernel withdrew the request before it was read.
  const bool is_nothing = size < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN);
  if (is_nothing) return 0;
  if (size < 0 && errno != ENODEV && errno != ECONNABORTED) {
    log_line(Priority::kError,
             "the kernel gives no requests: " + std::generic_category().message(errno));
  }
  return -1;
}

void Connection::answer(uint64_t unique, int error, Parts parts) const noexcept {
  OutHeader header{.len = sizeof(OutHeader), .error = -error, .unique = unique};
  std::array<iovec, 1 + Reply::kPartCountMax> message{to_iovec(header)};
  size_t count = 1;
  for (const Part part : parts.first(std::min(parts.size(), Reply::kPartCountMax))) {
    if (part.empty()) continue;
    header.len += static_cast<uint32_t>(part.size());
    message[count++] = to_iovec(part);
  }
  const int refused = write_all(descriptor_.get(), std::span(message).first(count));
  // ENOENT: the caller was killed, or was answered already. ENODEV: the mount is gone.
  if (refused == 0 || refused == ENOENT || refused == ENODEV) return;
  log_line(Priority::kError,
           "the kernel refuses an answer: " + std::generic_category().message(refused));
  // Answers without a body instead, so that the caller does not wait for ever.
  if (count > 1) answer(unique, EIO, {});
}

bool Connection::store(uint64_t ino, uint64_t offset, std::span<const std::byte> bytes) const {
  const NotifyStoreOut store{
      .nodeid = ino, .offset = offset, .size = static_cast<uint32_t>(bytes.size()), .padding = 0};
  const OutHeader header{
      .len = static_cast<uint32_t>(sizeof(OutHeader) + sizeof store + bytes.size()),
      .error = kNotifyStore,
      .unique = 0};
  const std::array parts{to_iovec(header), to_iovec(store), to_iovec(bytes)};
  return write_all(descriptor_.get(), parts) == 0;
}

void Connection::resend() const {
  const OutHeader header{.len = sizeof(OutHeader), .error = kNotifyResend, .unique = 0};
  const iovec message = to_iovec(header);
  // A kernel that cannot resend refuses it; then the journal has the requests (journal.h).
  [[maybe_unused]] const int refused = write_all(descriptor_.get(), {&message, 1});
}

}  // namespace ffrfs::fuse
