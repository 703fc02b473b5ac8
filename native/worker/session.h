// The native engine: answers the kernel's requests on one FUSE connection from a volume.
//
//   transports         /dev/fuse and, if the kernel has them, rings ─► Operations ─► answer
//   completion thread  the volume's eventfd ─► verified bytes ─► answer; interrupted ─► EINTR
//   far requests       remote bytes have come ─► Operations, again ─► answer
//   the volume's own   read ahead ─► store() into the kernel's page cache
//
// Not here: the tree, checksums, caching (volume); the protocol (fuse); the mount itself (the
// daemon). errno values are chosen in this room and nowhere below.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fuse/connection.h"
#include "fuse/dev_transport.h"
#include "fuse/uring_transport.h"
#include "io/file_descriptor.h"
#include "volume/volume.h"
#include "worker/operations.h"
#include "worker/trial.h"

namespace ffrfs {

struct SessionOptions {
  size_t thread_count = 1;  // threads that receive from /dev/fuse
  std::vector<uint64_t> suspects{};  // see Trial
  OperationOptions operations{};
};

class Session {
 public:
  // `connection`: an open /dev/fuse that is mounted. `rings`: created but not started, used if the
  // kernel supports them; nullptr: none.
  Session(Volume& volume, FileDescriptor connection, const SessionOptions& options,
          std::unique_ptr<fuse::UringTransport> rings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Serves until the kernel ends the connection (the last user of the mount is gone), or until
  // stop(). Then closes the connection, even if reads are in flight. May be called once.
  void serve();

  // Ends serve(), and returns when it has ended. Thread-safe.
  void stop();

 private:
  [[nodiscard]] fuse::Handler& handler(const std::vector<uint64_t>& suspects);
  [[nodiscard]] bool start();
  void complete();

  Volume& volume_;
  const size_t thread_count_;
  Operations operations_;
  std::optional<Trial> trial_;  // in front of the operations, if there are suspects
  fuse::Connection connection_;
  fuse::DevTransport dev_;
  std::unique_ptr<fuse::UringTransport> rings_;
  std::atomic<bool> is_ended_{false};  // no later request will be answered
  std::atomic<bool> is_over_{false};   // serve() has ended
};

}  // namespace ffrfs
