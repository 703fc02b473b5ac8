// The answers to the kernel's requests, out of a volume: about ten of them, each a few lines.
//
// Any thread. None waits for the disk: what needs bytes that are not at hand (a read, or
// the directory of a record that was not looked into yet) leaves its answer to Volume::poll();
// what needs a part of an index that is far away, to FarRequests; all else is answered at once,
// even if a mapped index has to be paged in. Whoever waits may be interrupted.
//
// The kernel may keep all it learns (names, attributes, listings, bytes) for a year: the tree
// cannot change. Where it can do without OPEN and OPENDIR they are refused once (ENOSYS) and
// never sent again, so a file that is in its cache costs no request. Nothing that the kernel
// relies on is kept here: an inode number is computed from the tree, a handle does not exist.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>

#include "fuse/handler.h"
#include "volume/volume.h"
#include "worker/answer.h"
#include "worker/far_requests.h"
#include "worker/interrupts.h"

namespace ffrfs {

struct OperationOptions {
  bool xattr = false;       // show user.ffrfs.*
  bool allow_root = false;  // turn away all users but root and ours
  bool send_opens = false;  // as on a kernel that cannot do without OPEN and OPENDIR
};

class Operations final : public fuse::Handler {
 public:
  Operations(Volume& volume, const OperationOptions& options);

  // The kernel cannot do without OPEN and OPENDIR. Before the first request.
  void send_opens() { options_.send_opens = true; }

  void handle(const fuse::Request& request, const fuse::Reply& reply) noexcept override;
  void interrupt(uint64_t unique) noexcept override { interrupts_.interrupt(unique); }

  // For the thread that waits for the volume: answers those who were interrupted. In how many
  // milliseconds there is more to do; -1: nothing.
  [[nodiscard]] int expire_interrupts() noexcept;
  // The transports end: no answer is given any more.
  void close() { interrupts_.close(); }

 private:
  using Request = fuse::Request;
  using Reply = fuse::Reply;

  void lookup(const Request& request, const Reply& reply);
  void getattr(const Request& request, const Reply& reply);
  void readlink(const Request& request, const Reply& reply);
  void open(const Request& request, const Reply& reply, uint32_t open_flags);
  void read(const Request& request, const Reply& reply);
  void read_later(const Request& request, const std::optional<Extent>& missing,
                  const Reply& reply, const RequestTimer& timer) noexcept;
  void readdirplus(const Request& request, const Reply& reply);
  void statfs(const Reply& reply);
  void getxattr(const Request& request, const Reply& reply);
  void listxattr(const Request& request, const Reply& reply);

  // The answer of a request that needs no more than an errno, or 0.
  void finish(const Reply& reply, RequestKind kind, int error_number);

  // Answers with body(reply, part, name), where `part` knows that about the request's inode, now
  // or later, perhaps with another reply. What `body` throws, before it has answered, is a
  // failure to read that inode.
  template <typename Body>
  void answer_from(const Request& request, const Reply& reply, RequestKind kind, Need need,
                   Body body) noexcept;
  template <typename Body>
  void answer_later(const Request& request, const Reply& reply, Need need,
                    const RequestTimer& timer, Body body) noexcept;

  [[nodiscard]] bool is_turned_away(const Request& request) const;

  void fail(const Reply& reply, Ino ino, const RequestTimer& timer,
            const std::exception_ptr& error) noexcept;
  // The errno with which a failure to read is answered; says so in the log.
  int read_failed(Ino ino, const std::exception_ptr& error);

  Volume& volume_;
  OperationOptions options_;
  const uid_t owner_;
  Interrupts interrupts_{[this] { volume_.wake(); }};
  FarRequests far_;
};

}  // namespace ffrfs
