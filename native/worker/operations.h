// Answers the kernel's requests from a volume: about ten kinds, each a few lines.
//
// Thread-safe. No handler waits for the disk: if it needs bytes that are not at hand (a READ, or
// the directory of a record that was not read yet), Volume::poll() answers later; if it needs a
// part of an index that is far, FarRequests does. All other requests are answered at once, even if
// a mapped index has to be paged in. Requests that wait can be interrupted.
//
// The kernel may cache everything (names, attributes, listings, bytes) for a year: the tree cannot
// change. If the kernel allows it, OPEN and OPENDIR are refused once (ENOSYS) and never sent again,
// so a file in the page cache costs no request. The worker keeps no state for the kernel: an inode
// number is computed from the tree, and there are no file handles.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <vector>

#include "fuse/handler.h"
#include "volume/volume.h"
#include "worker/answer.h"
#include "worker/far_requests.h"
#include "worker/interrupts.h"
#include "worker/request_log.h"

namespace ffrfs {

struct OperationOptions {
  bool xattr = false;  // show user.ffrfs.*
  bool allow_root = false;  // reject all users except root and the mount's owner
  bool send_opens = false;  // for a kernel that needs OPEN and OPENDIR
  // Requests that end the process that handles them (fuse::request_key()): they fail.
  std::vector<uint64_t> quarantined{};
};

class Operations final : public fuse::Handler {
 public:
  Operations(Volume& volume, const OperationOptions& options);

  // For a kernel that needs OPEN and OPENDIR. Must be called before the first request.
  void send_opens() { options_.send_opens = true; }

  void handle(const fuse::Request& request, const fuse::Reply& reply) noexcept override;
  void interrupt(uint64_t unique) noexcept override { interrupts_.interrupt(unique); }

  // Called by the thread that waits for the volume: answers interrupted requests. Returns in how
  // many milliseconds the next is due; -1 if none is.
  [[nodiscard]] int expire_interrupts() noexcept;
  // For requests that wait before they are handled.
  [[nodiscard]] Interrupts& interrupts() { return interrupts_; }
  // Called when the transports end: drops all later answers.
  void close() {
    interrupts_.close();
    log_.finish();
  }

 private:
  using Request = fuse::Request;
  using Reply = fuse::Reply;

  void lookup(const Request& request, const Reply& reply);
  void getattr(const Request& request, const Reply& reply);
  void readlink(const Request& request, const Reply& reply);
  void open(const Request& request, const Reply& reply, uint32_t open_flags);
  void read(const Request& request, const Reply& reply);
  void read_later(const Request& request, const std::optional<Extent>& missing, const Reply& reply,
                  const RequestTimer& timer) noexcept;
  void readdirplus(const Request& request, const Reply& reply);
  void statfs(const Reply& reply);
  void getxattr(const Request& request, const Reply& reply);
  void listxattr(const Request& request, const Reply& reply);

  void refuse(const Request& request, const Reply& reply) noexcept;
  // Answers a request with nothing but an errno, or 0.
  void finish(const Reply& reply, RequestKind kind, int error_number);

  // Answers with body(reply, part, name), now or later, perhaps with another reply; `part` is the
  // tree that has what `need` says of the request's inode. If `body` throws before it has answered,
  // the request fails as unreadable.
  template <typename Body>
  void answer_from(const Request& request, const Reply& reply, RequestKind kind, Need need,
                   Body body) noexcept;
  template <typename Body>
  void answer_later(const Request& request, const Reply& reply, Need need,
                    const RequestTimer& timer, Body body) noexcept;

  [[nodiscard]] bool is_turned_away(const Request& request) const;
  [[nodiscard]] bool is_quarantined(const Request& request) const;

  // Answers a request that failed to read, counts the failure, and logs it later.
  void fail(const Reply& reply, Ino ino, const RequestTimer& timer,
            const std::exception_ptr& error) noexcept;

  Volume& volume_;
  OperationOptions options_;
  const uid_t owner_;
  Interrupts interrupts_{[this] { volume_.wake(); }};
  RequestLog log_{volume_, far_};
  FarRequests far_;
};

}  // namespace ffrfs
