// A mounted /dev/fuse: messages from the kernel, and to it.
//
// Any thread; the kernel keeps messages whole. It gives each request to one of those who read.

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
  // What receive() needs at least: a request of a read-only tree is a header, and a name or two.
  static constexpr size_t kMessageSizeMax = 16384;

  explicit Connection(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}

  [[nodiscard]] int fd() const { return descriptor_.get(); }

  // Waits for a message. Its size; 0: a signal came, or a request was taken back;
  // -1: the connection has ended.
  [[nodiscard]] ssize_t receive(std::span<std::byte> buffer) const;

  // Answers the request `unique`. One that is there no more is no error.
  void answer(uint64_t unique, int error, Parts parts) const noexcept;

  // Gives the kernel bytes of a file to keep. False: it does not know the inode, or has no room.
  // May wait for a page that a READ holds: never on a thread that answers READs.
  [[nodiscard]] bool store(uint64_t ino, uint64_t offset, std::span<const std::byte> bytes) const;

  // Not while another thread uses it.
  void close() { descriptor_.reset(); }

 private:
  FileDescriptor descriptor_;
};

}  // namespace ffrfs::fuse
