#include "worker/operations.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "fuse/journal.h"
#include "fuse/log.h"
#include "worker/answer.h"
#include "worker/inode_reply.h"
#include "worker/read_failure.h"

namespace ffrfs {
namespace {

using fuse::Opcode;

constexpr uint32_t kStatfsBlockSize = 4096;
constexpr size_t kNameMax = 255;
constexpr Ino kNoIno = 0;  // of a request that needs no inode

template <typename Body>
void answer(RequestLog& log, RequestKind kind, const fuse::Reply& reply, Body body) noexcept {
  answer(RequestTimer(log, kind, kNoIno), reply, std::move(body));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Replies with the value, or with its size if the caller asks only for that.
void reply_xattr(const fuse::Reply& reply, std::string_view value, size_t size) {
  if (size == 0) {
    reply.value(fuse::GetxattrOut{.size = static_cast<uint32_t>(value.size()), .padding = 0});
  } else if (size < value.size()) {
    reply.error(ERANGE);
  } else {
    reply.bytes(bytes_of(value));
  }
}

// Returns whether a request would change the tree: sent only after a remount with rw.
bool is_change(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSetattr:
    case Opcode::kMknod:
    case Opcode::kMkdir:
    case Opcode::kUnlink:
    case Opcode::kRmdir:
    case Opcode::kSymlink:
    case Opcode::kRename:
    case Opcode::kRename2:
    case Opcode::kLink:
    case Opcode::kWrite:
    case Opcode::kCreate:
    case Opcode::kSetxattr:
    case Opcode::kRemovexattr: return true;
    default: return false;
  }
}

constexpr std::string_view kRecordName = "user.ffrfs.record";
constexpr std::string_view kCrc32Name = "user.ffrfs.crc32";

void reply_slice(const fuse::Reply& reply, const Slice& slice) {
  // Cannot happen: a READ is at most a megabyte, and so is a part.
  if (slice.rest.size() >= fuse::Reply::kPartCountMax) return reply.error(EIO);
  std::array<fuse::Part, fuse::Reply::kPartCountMax> parts{slice.bytes};
  size_t count = 1;
  for (const Slice& next : slice.rest) parts[count++] = next.bytes;
  reply.parts(std::span(parts).first(count));
}

// Returns 0 if there is no such name. The kernel asks for "." and ".." if a file handle (of an NFS
// client, or open_by_handle_at()) names an inode that it has forgotten.
Ino find(const Tree& part, Ino parent, std::string_view name) {
  if (name != "." && name != "..") return part.lookup(parent, name);
  const auto inode = part.inode(parent);
  return !inode ? 0 : name == "." ? parent : inode->parent;
}

}  // namespace

Operations::Operations(Volume& volume, const OperationOptions& options)
    : volume_(volume), options_(options), owner_(getuid()) {
  // allow_root rejects users in OPEN, so the kernel must send every OPEN.
  if (options_.allow_root) options_.send_opens = true;
}

void Operations::handle(const Request& request, const Reply& reply) noexcept {
  if (is_turned_away(request)) return reply.error(EACCES);
  if (!options_.quarantined.empty() && is_quarantined(request)) return refuse(request, reply);
  switch (request.opcode) {
    case Opcode::kLookup: return lookup(request, reply);
    case Opcode::kGetattr: return getattr(request, reply);
    case Opcode::kReadlink: return readlink(request, reply);
    case Opcode::kOpen: return open(request, reply, fuse::kKeepCache);
    case Opcode::kOpendir: return open(request, reply, fuse::kKeepCache | fuse::kCacheDir);
    case Opcode::kRead: return read(request, reply);
    case Opcode::kReaddirplus: return readdirplus(request, reply);
    case Opcode::kStatfs: return statfs(reply);
    case Opcode::kGetxattr: return getxattr(request, reply);
    case Opcode::kListxattr: return listxattr(request, reply);
    case Opcode::kRelease: return finish(reply, RequestKind::kRelease, 0);
    case Opcode::kReleasedir: return finish(reply, RequestKind::kReleasedir, 0);
    default: break;
  }
  if (is_change(request.opcode)) return finish(reply, RequestKind::kRefuse, EROFS);
  reply.error(ENOSYS);  // the kernel stops sending them: others, and FLUSH if it sends opens
}

// As libfuse does: a request on an open file was allowed when the file was opened.
bool Operations::is_turned_away(const Request& request) const {
  if (!options_.allow_root || request.uid == owner_ || request.uid == 0) return false;
  switch (request.opcode) {
    case Opcode::kRead:
    case Opcode::kReaddirplus:
    case Opcode::kRelease:
    case Opcode::kReleasedir: return false;
    default: return true;
  }
}

bool Operations::is_quarantined(const Request& request) const {
  const auto key = fuse::request_key(request.ino, static_cast<uint32_t>(request.opcode));
  return std::ranges::find(options_.quarantined, key) != options_.quarantined.end();
}

void Operations::refuse(const Request& request, const Reply& reply) noexcept {
  fail(reply, request.ino, RequestTimer(log_, RequestKind::kRefuse, request.ino),
       std::make_exception_ptr(
           std::runtime_error("it has ended the worker twice; try it again by `ffrfs restart`")));
}

void Operations::finish(const Reply& reply, RequestKind kind, int error_number) {
  answer(log_, kind, reply, [&] { reply.error(error_number); });
}

int Operations::expire_interrupts() noexcept {
  const auto now = Interrupts::Clock::now();
  const auto next = interrupts_.expire(now);
  if (!next) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*next - now).count());
}

template <typename Body>
void Operations::answer_from(const Request& request, const Reply& reply, RequestKind kind,
                             Need need, Body body) noexcept {
  const RequestTimer timer(log_, kind, request.ino);
  try {
    const NearOnly here;
    if (const TreePtr part = volume_.find_tree(need, request.ino)) {
      body(reply, *part, request.name);
      return timer.stop();
    }
  } catch (const FarAway&) {  // as if the inode were not at hand
  } catch (...) {
    return fail(reply, request.ino, timer, std::current_exception());
  }
  answer_later(request, reply, need, timer, body);
}

template <typename Body>
void Operations::answer_later(const Request& request, const Reply& reply, Need need,
                              const RequestTimer& timer, Body body) noexcept {
  const auto failed = [this, timer, ino = request.ino](const Reply& to,
                                                       const std::exception_ptr& error) {
    fail(to, ino, timer, error);
  };
  Reply watched = reply;
  try {
    watched = interrupts_.watch(reply);
    // Shared, because answer_by() must not fail for want of memory for a copy.
    const auto name = std::make_shared<const std::string>(request.name);
    const auto answer_by = [this, watched, failed, timer, name, body](const TreePtr& part) {
      far_.run(watched, [part, timer, name, body](const Reply& to) {
        body(to, *part, *name);
        timer.stop();
      }, failed);
    };
    const TreePtr part = volume_.load_tree(
        need, request.ino,
        [watched, failed, answer_by](const TreePtr& late, const std::exception_ptr& error) {
      if (error) return failed(watched, error);
      answer_by(late);
    });
    if (part) answer_by(part);
  } catch (...) {
    failed(watched, std::current_exception());
  }
}

void Operations::lookup(const Request& request, const Reply& reply) {
  answer_from(
      request, reply, RequestKind::kLookup, Need::kEntries,
      [this, parent = request.ino](const Reply& to, const Tree& part, std::string_view wanted) {
    const Ino ino = find(part, parent, wanted);
    if (ino != 0) {
      to.value(to_entry(volume_.attributes(part, ino).value()));
    } else if (wanted.size() > kNameMax) {  // the kernel passes on up to 1024 bytes
      to.error(ENAMETOOLONG);
    } else {
      to.value(absent_entry());
    }
  });
}

void Operations::getattr(const Request& request, const Reply& reply) {
  answer_from(request, reply, RequestKind::kGetattr, Need::kInode,
              [this, ino = request.ino](const Reply& to, const Tree& part, std::string_view) {
    if (const auto attributes = volume_.attributes(part, ino)) {
      to.value(to_attr_out(*attributes));
    } else {
      to.error(ESTALE);
    }
  });
}

void Operations::readlink(const Request& request, const Reply& reply) {
  answer_from(request, reply, RequestKind::kReadlink, Need::kInode,
              [ino = request.ino](const Reply& to, const Tree& part, std::string_view) {
    const std::string target = part.target(ino);
    if (target.empty()) {
      to.error(EINVAL);  // not a symlink
    } else {
      to.bytes(bytes_of(target));
    }
  });
}

void Operations::open(const Request& request, const Reply& reply, uint32_t open_flags) {
  const bool is_file = request.opcode == Opcode::kOpen;
  answer(log_, is_file ? RequestKind::kOpen : RequestKind::kOpendir, reply, [&] {
    if (is_file && (request.flags & O_ACCMODE) != O_RDONLY) {
      reply.error(EROFS);
    } else if (!options_.send_opens) {
      reply.error(ENOSYS);  // the kernel sends no OPEN, FLUSH or RELEASE any more
    } else {
      reply.value(fuse::OpenOut{.fh = 0, .open_flags = open_flags, .backing_id = 0});
    }
  });
}

void Operations::readdirplus(const Request& request, const Reply& reply) {
  answer_from(request, reply, RequestKind::kReaddir, Need::kEntries,
              [this, ino = request.ino, size = request.size, begin = request.offset](
                  const Reply& to, const Tree& part, std::string_view) {
    const auto inode = part.inode(ino);
    if (!inode || !inode->is_directory()) {
      to.error(inode ? ENOTDIR : ESTALE);
      return;
    }
    ListingReply listing(size, begin);
    bool fits = true;
    if (listing.position() == 0) fits = listing.add(".", volume_.attributes(part, ino).value());
    if (fits && listing.position() == 1) {
      fits = listing.add("..", volume_.attributes(part, inode->parent).value());
    }
    if (fits) listing.add_entries(volume_, part, ino);
    to.bytes(listing.bytes());
  });
}

void Operations::statfs(const Reply& reply) {
  answer(log_, RequestKind::kStatfs, reply, [&] {
    fuse::StatfsOut info{};
    info.bsize = info.frsize = kStatfsBlockSize;
    info.blocks = (volume_.byte_count() + kStatfsBlockSize - 1) / kStatfsBlockSize;
    info.files = volume_.tree().inode_count();
    info.namelen = kNameMax;
    reply.value(info);
  });
}

void Operations::getxattr(const Request& request, const Reply& reply) {
  if (!options_.xattr) return finish(reply, RequestKind::kGetxattr, ENOSYS);  // sent only once
  answer_from(request, reply, RequestKind::kGetxattr, Need::kInode,
              [this, ino = request.ino, size = request.size](const Reply& to, const Tree& part,
                                                             std::string_view wanted) {
    const auto contents = part.contents(ino);
    if (contents && wanted == kRecordName) {
      return reply_xattr(to, std::to_string(contents->record), size);
    }
    const auto crc32 =
        contents && wanted == kCrc32Name ? volume_.stored_crc32(*contents) : std::nullopt;
    if (!crc32) return to.error(ENODATA);
    std::array<char, 9> text{};
    std::snprintf(text.data(), text.size(), "%08x", *crc32);
    reply_xattr(to, text.data(), size);
  });
}

void Operations::listxattr(const Request& request, const Reply& reply) {
  if (!options_.xattr) return finish(reply, RequestKind::kListxattr, ENOSYS);
  answer_from(request, reply, RequestKind::kListxattr, Need::kInode,
              [this, ino = request.ino, size = request.size](const Reply& to, const Tree& part,
                                                             std::string_view) {
    const auto contents = part.contents(ino);
    std::string names;
    if (contents) {
      (names += kRecordName) += '\0';
      if (volume_.stored_crc32(*contents)) (names += kCrc32Name) += '\0';
    }
    reply_xattr(to, names, size);
  });
}

// READ, and the errors and log lines for bytes that cannot be read.

void Operations::read(const Request& request, const Reply& reply) {
  const RequestTimer timer(log_, RequestKind::kRead, request.ino);
  std::optional<Extent> missing;
  try {
    const NearOnly here;
    const auto room = reply.room().first(std::min<size_t>(request.size, reply.room().size()));
    const auto found = volume_.read_now(request.ino, request.offset, request.size, room);
    if (found.size) {
      reply.bytes(room.first(*found.size));
      return timer.stop();
    }
    missing = found.missing;
  } catch (const FarAway&) {  // as if the bytes were not at hand
  } catch (...) {
    return fail(reply, request.ino, timer, std::current_exception());
  }
  read_later(request, missing, reply, timer);
}

void Operations::read_later(const Request& request, const std::optional<Extent>& missing,
                            const Reply& reply, const RequestTimer& timer) noexcept {
  const auto failed = [this, timer, ino = request.ino](const Reply& to,
                                                       const std::exception_ptr& error) {
    fail(to, ino, timer, error);
  };
  const auto finish = [timer, failed](const Reply& to, const Slice& slice,
                                      const std::exception_ptr& error) {
    if (error) return failed(to, error);
    reply_slice(to, slice);
    timer.stop();
  };
  Reply watched = reply;
  try {
    watched = interrupts_.watch(reply);
  } catch (...) {
    return failed(reply, std::current_exception());
  }
  far_.run(watched,
           [this, finish, missing, ino = request.ino, offset = request.offset,
            size = request.size](const Reply& to) {
    const auto done = [finish, to](const Slice& slice, const std::exception_ptr& error) {
      finish(to, slice, error);
    };
    if (missing) return volume_.read_missing(*missing, done);
    const auto slice = volume_.read(ino, offset, size, done, FileReads::Shape::kParts);
    if (slice) done(*slice, nullptr);
  },
           failed);
}

void Operations::fail(const Reply& reply, Ino ino, const RequestTimer& timer,
                      const std::exception_ptr& error) noexcept {
  ReadFailure failure;
  std::optional<Ino> to_log;
  answer(timer, reply, [&] {
    failure = failure_of(error);
    to_log = volume_.note_failure(ino);  // counted before the reader has its answer
    if (to_log) log_.expect_failure();
    reply.error(failure.number);
  });
  if (to_log) log_.log_failure(*to_log, ino, failure.reason);
}

}  // namespace ffrfs
