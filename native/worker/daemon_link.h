// Talks to the daemon that started the worker, over a SOCK_SEQPACKET socket:
//
//   worker → daemon   "notice" and a line for the user, any number
//                     "unverified" and a file whose header has no checksum, any number
//                     "file" and a file of records and its identity, for each of them
//                     "opened", or "failed" and the parts of the error
//   daemon → worker   "c" with the connection to the kernel, once
//                     "h" with the socket of a client that hints, any number
//                     "f" with a link to another fetcher, after one has ended, any number
//                     "l" and 8 bytes, little-endian: the limit of the cache, any number
//                     "p" and 8 bytes: how much may be pushed ahead of readers, any number
//                     "w" and 8 bytes: the inode that is to be warmed, any number
//
// A message of the worker is a list of texts, a zero byte after each; later events go to stderr
// (log.h). The daemon's side is ffrfs/mount/engines/worker.py.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/file_descriptor.h"

namespace ffrfs {

class DaemonLink {
 public:
  // `take_fetcher` gets the links to fetchers, on the thread that receives.
  using TakeFetcher = std::function<void(FileDescriptor)>;
  explicit DaemonLink(int socket_fd, TakeFetcher take_fetcher = nullptr)
      : socket_(socket_fd), take_fetcher_(std::move(take_fetcher)) {}

  void send_notice(const std::string& line);
  void send_unverified(const std::string& path);
  // `identity`: see Volume::identity().
  void send_file(const std::string& path, const std::string& identity);
  void send_opened();
  void send_failed(const std::exception_ptr& error);

  // Waits until the daemon has mounted, and returns the connection; an invalid one if the daemon
  // has ended instead. Throws StorageError if no descriptor is left for it. Other threads may send
  // meanwhile.
  [[nodiscard]] FileDescriptor receive_connection();

  struct Heard {
    std::function<void(FileDescriptor)> take_hints;  // the socket of a client
    std::function<void(uint64_t)> limit_cache;       // bytes, as limit_pushed
    std::function<void(uint64_t)> limit_pushed;
    std::function<void(uint64_t)> warm;  // an inode
  };
  // Calls `heard` for each message, and returns when the daemon has ended or has closed the socket.
  // No other thread may receive meanwhile.
  void wait_for_end(const Heard& heard);

 private:
  struct Message {
    char kind = 0;
    std::optional<uint64_t> number;
    FileDescriptor carried;
  };
  [[nodiscard]] std::optional<Message> receive();  // nullopt: the socket is closed
  void send(const std::vector<std::string>& texts);

  void take(Message message);
  static bool take_number(const Message& message, const Heard& heard);

  FileDescriptor socket_;
  const TakeFetcher take_fetcher_;
  std::vector<Message> early_limits_;  // received before the connection was
};

}  // namespace ffrfs
