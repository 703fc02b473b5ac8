// A mounted /dev/fuse: receives messages from the kernel, and sends messages to it.
//
// Thread-safe; the kernel keeps messages whole, and gives each request to one reading thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fuse/protocol.h"
#include "fuse/reply.h"
#include "io/file_descriptor.h"

namespace ffrfs::fuse {

class Connection {
 public:
  // The buffer that receive() needs: a request of a read-only tree is a header and a name or two.
  static constexpr size_t kMessageSizeMax = 16384;

  explicit Connection(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}

  [[nodiscard]] int fd() const { return descriptor_.get(); }

  // Waits for a message and returns its size; 0 if a signal came, or a request was withdrawn; -1 if
  // the connection has ended.
  [[nodiscard]] ssize_t receive(std::span<std::byte> buffer) const;

  // Answers the request `unique`. It is not an error if the request no longer exists.
  void answer(uint64_t unique, int error, Parts parts) const noexcept;

  // Stores bytes of a file in the page cache. Returns false if the kernel does not know the inode,
  // or has no room. May wait for a page that a READ has locked: never call it on a thread that
  // answers READs.
  [[nodiscard]] bool store(uint64_t ino, uint64_t offset, std::span<const std::byte> bytes) const;

  // Makes the kernel give out again each request that was received and not answered, perhaps by a
  // process that has ended. Does nothing on a kernel that cannot.
  void resend() const;

  // No other thread may be using the connection.
  void close() { descriptor_.reset(); }

 private:
  FileDescriptor descriptor_;
};

}  // namespace ffrfs::fuse
