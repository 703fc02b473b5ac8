// libfuse's low-level callbacks over a volume: about ten of them, each a few lines.
//
// Any thread. None waits for the disk: what needs bytes that are not at hand (a read, or
// the folder of a record that was not looked into yet) leaves its answer to Volume::poll();
// all else is answered at once, be it that a mapped index has to be paged in. Nothing is
// thrown into libfuse.

#pragma once

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <string_view>

#include "volume/volume.h"

namespace ffrfs {

class Operations {
 public:
  Operations(Volume& volume, bool xattr, bool send_opens)
      : volume_(volume), xattr_(xattr), send_opens_(send_opens) {}

  // For fuse_session_new(), whose `userdata` is this object.
  [[nodiscard]] static const fuse_lowlevel_ops& table();

  // The answer of a request that needs no more than an errno, or 0.
  void finish(fuse_req_t request, RequestKind kind, int error_number);

 private:
  void init(fuse_conn_info& connection);
  void lookup(fuse_req_t request, Ino parent, std::string_view name);
  void getattr(fuse_req_t request, Ino ino);
  void readlink(fuse_req_t request, Ino ino);
  void open(fuse_req_t request, Ino ino, fuse_file_info& info);
  void read(fuse_req_t request, Ino ino, size_t size, uint64_t offset);
  void opendir(fuse_req_t request, Ino ino, fuse_file_info& info);
  void readdirplus(fuse_req_t request, Ino ino, size_t size, uint64_t begin);
  void statfs(fuse_req_t request);
  void getxattr(fuse_req_t request, Ino ino, std::string_view name, size_t size);
  void listxattr(fuse_req_t request, Ino ino, size_t size);

  // Answers with body(part, name), where `part` knows that about `ino`, now or in poll().
  // What `body` throws, before it has answered, is a failure to read `ino`.
  template <typename Body>
  void answer_from(fuse_req_t request, RequestKind kind, Need need, Ino ino,
                   std::string_view name, Body body) noexcept;

  // A file of FFRecord is a whole record, with a checksum that was told for it.

  // The errno with which a failure to read is answered; says so in the log.
  int read_failed(Ino ino, const std::exception_ptr& error);

  Volume& volume_;
  const bool xattr_;
  std::atomic<bool> send_opens_;  // known for good when init() has run, before the others
};

}  // namespace ffrfs
