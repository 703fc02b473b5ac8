// libfuse's low-level callbacks over a volume: about ten of them, each a few lines.
//
// Any thread. All but read() answer before they return and never wait for the disk;
// read() may leave its answer to Volume::poll(). Nothing is thrown into libfuse.

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
  void open(fuse_req_t request, Ino ino, fuse_file_info& info);
  void read(fuse_req_t request, Ino ino, size_t size, uint64_t offset);
  void opendir(fuse_req_t request, Ino ino, fuse_file_info& info);
  void readdirplus(fuse_req_t request, Ino ino, size_t size, uint64_t position);
  void statfs(fuse_req_t request);
  void getxattr(fuse_req_t request, Ino ino, std::string_view name, size_t size);
  void listxattr(fuse_req_t request, Ino ino, size_t size);

  // 0, or the errno with which a failed read is answered; says so in the log.
  int read_failed(Ino ino, const std::exception_ptr& error);

  Volume& volume_;
  const bool xattr_;
  std::atomic<bool> send_opens_;  // known for good when init() has run, before the others
};

}  // namespace ffrfs
