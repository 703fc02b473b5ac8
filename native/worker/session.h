// The native engine: answers the kernel's requests on one FUSE connection from a volume.
//
//   request threads   receive ─► what is asked is at hand? answer : back for the next request
//   completion thread  the volume's eventfd ─► verified bytes ─► answer
//   the volume's own   read ahead ─► push() into the kernel's page cache
//
// The kernel may keep all it learns (names, attributes, listings, bytes) for a
// year: the tree cannot change. Where it can do without OPEN and OPENDIR they are refused
// once (ENOSYS) and never sent again, so a file that is in its cache costs no request.
// Nothing that the kernel relies on is kept here: an inode number is computed from the
// tree, a handle does not exist. Another session could go on at any request.
//
// Not here: the tree, checksums, caching (volume); the mount itself (the daemon).
// errno values are chosen in this room and nowhere below.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "fuse/operations.h"
#include "fuse/receiver_limit.h"
#include "io/file_descriptor.h"
#include "volume/volume.h"

struct fuse_session;

namespace ffrfs {

// How requests come from the kernel: by read(2) on the connection, by rings of io_uring, or by
// those if the kernel offers them.
enum class Transport { kAuto, kDev, kUring };

struct SessionOptions {
  Transport transport = Transport::kAuto;
  size_t thread_count = 1;  // that receive requests
  bool xattr = false;       // show user.ffrfs.*
  bool allow_root = false;  // turn away all users but root and ours
  bool send_opens = false;  // as on a kernel that cannot do without OPEN and OPENDIR
};

class Session {
 public:
  // `connection`: an open /dev/fuse that is mounted. Throws StorageError.
  Session(Volume& volume, FileDescriptor connection, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Serves until the kernel ends the connection (the last user of the mount is gone), or
  // stop(). Then the connection is closed, whatever is still being read. Once only.
  void serve();

  // Ends serve() at once. Any thread.
  void stop();

 private:
  void receive();
  void complete();
  [[nodiscard]] bool push(Ino ino, uint64_t offset, std::span<const std::byte> bytes);

  struct Destroy {
    void operator()(fuse_session* session) const;
  };

  Volume& volume_;
  const size_t thread_count_;
  Operations operations_;
  std::unique_ptr<fuse_session, Destroy> session_;
  ReceiverLimit turnstile_;
  std::mutex mutex_;  // guards the threads' list, and the session's end
  std::vector<pthread_t> receiving_;
  std::atomic<bool> ended_{false};
};

}  // namespace ffrfs
