#include "worker/operations.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <string>

#include "fuse/log.h"
#include "io/error.h"
#include "worker/answer.h"
#include "worker/inode_reply.h"

namespace ffrfs {
namespace {

using fuse::Opcode;

constexpr uint32_t kStatfsBlockSize = 4096;
constexpr size_t kNameMax = 255;
constexpr Ino kNoIno = 0;  // of a request that needs no file to answer it

template <typename Body>
void answer(Volume& volume, RequestKind kind, const fuse::Reply& reply, Body body) noexcept {
  answer(RequestTimer(volume, kind, kNoIno), reply, std::move(body));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The value, or its size if the caller only asks for that.
void reply_xattr(const fuse::Reply& reply, std::string_view value, size_t size) {
  if (size == 0) {
    reply.value(fuse::GetxattrOut{.size = static_cast<uint32_t>(value.size()), .padding = 0});
  } else if (size < value.size()) {
    reply.error(ERANGE);
  } else {
    reply.bytes(bytes_of(value));
  }
}

void reply_slice(const fuse::Reply& reply, const Slice& slice) {
  // Never: a READ is a megabyte at most, as is a part.
  if (slice.rest.size() >= fuse::Reply::kPartCountMax) return reply.error(EIO);
  std::array<fuse::Part, fuse::Reply::kPartCountMax> parts{slice.bytes};
  size_t count = 1;
  for (const Slice& next : slice.rest) parts[count++] = next.bytes;
  reply.parts(std::span(parts).first(count));
}

// What would change the tree: asked only if somebody remounts it rw.
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
    case Opcode::kRemovexattr:
      return true;
    default:
      return false;
  }
}

constexpr std::string_view kRecordName = "user.ffrfs.record";
constexpr std::string_view kCrc32Name = "user.ffrfs.crc32";

}  // namespace

Operations::Operations(Volume& volume, const OperationOptions& options)
    : volume_(volume), options_(options), owner_(getuid()) {
  // Of those who are turned away every open must be seen.
  if (options_.allow_root) options_.send_opens = true;
}

void Operations::handle(const Request& request, const Reply& reply) noexcept {
  if (is_turned_away(request)) return reply.error(EACCES);
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
  reply.error(ENOSYS);  // never sent again: FLUSH, where opens are sent, and others
}

// As libfuse has it: what needs an open file was let through when that was opened.
bool Operations::is_turned_away(const Request& request) const {
  if (!options_.allow_root || request.uid == owner_ || request.uid == 0) return false;
  switch (request.opcode) {
    case Opcode::kRead:
    case Opcode::kReaddirplus:
    case Opcode::kRelease:
    case Opcode::kReleasedir:
      return false;
    default:
      return true;
  }
}

void Operations::finish(const Reply& reply, RequestKind kind, int error_number) {
  answer(volume_, kind, reply, [&] { reply.error(error_number); });
}

template <typename Body>
void Operations::answer_from(const Reply& reply, RequestKind kind, Need need, Ino ino,
                             std::string_view name, Body body) noexcept {
  const RequestTimer timer(volume_, kind, ino);
  const auto fail = [this, reply, timer, ino](const std::exception_ptr& error) {
    answer(timer, reply, [&] { reply.error(read_failed(ino, error)); });
  };
  try {
    TreePtr part = volume_.find_tree(need, ino);
    if (!part) {
      part = volume_.load_tree(need, ino, [timer, fail, name = std::string(name), body](
                                              const TreePtr& late, std::exception_ptr error) {
        try {
          if (error) std::rethrow_exception(error);
          body(*late, name);
          timer.stop();
        } catch (...) {
          fail(std::current_exception());
        }
      });
    }
    if (!part) return;
    body(*part, name);
    timer.stop();
  } catch (...) {
    fail(std::current_exception());
  }
}

void Operations::lookup(const Request& request, const Reply& reply) {
  answer_from(reply, RequestKind::kLookup, Need::kEntries, request.ino, request.name,
              [this, reply, parent = request.ino](const Tree& part, std::string_view wanted) {
    const Ino ino = part.lookup(parent, wanted);
    if (ino != 0) {
      reply.value(to_entry(volume_.attributes(part, ino).value()));
    } else if (wanted.size() > kNameMax) {  // the kernel lets up to 1024 bytes through
      reply.error(ENAMETOOLONG);
    } else {
      reply.value(absent_entry());
    }
  });
}

void Operations::getattr(const Request& request, const Reply& reply) {
  answer_from(reply, RequestKind::kGetattr, Need::kInode, request.ino, {},
              [this, reply, ino = request.ino](const Tree& part, std::string_view) {
    if (const auto attributes = volume_.attributes(part, ino)) {
      reply.value(to_attr_out(*attributes));
    } else {
      reply.error(ESTALE);
    }
  });
}

void Operations::readlink(const Request& request, const Reply& reply) {
  answer_from(reply, RequestKind::kReadlink, Need::kInode, request.ino, {},
              [reply, ino = request.ino](const Tree& part, std::string_view) {
    const std::string target = part.target(ino);
    if (target.empty()) {
      reply.error(EINVAL);  // no link
    } else {
      reply.bytes(bytes_of(target));
    }
  });
}

void Operations::open(const Request& request, const Reply& reply, uint32_t open_flags) {
  const bool is_file = request.opcode == Opcode::kOpen;
  answer(volume_, is_file ? RequestKind::kOpen : RequestKind::kOpendir, reply, [&] {
    if (is_file && (request.flags & O_ACCMODE) != O_RDONLY) {
      reply.error(EROFS);
    } else if (!options_.send_opens) {
      reply.error(ENOSYS);  // neither OPEN nor FLUSH nor RELEASE any more
    } else {
      reply.value(fuse::OpenOut{.fh = 0, .open_flags = open_flags, .backing_id = 0});
    }
  });
}

void Operations::read(const Request& request, const Reply& reply) {
  const RequestTimer timer(volume_, RequestKind::kRead, request.ino);
  const auto finish_read = [this, ino = request.ino, reply, timer](
                               const Slice& slice, const std::exception_ptr& error) {
    if (error) {
      reply.error(read_failed(ino, error));
    } else {
      reply_slice(reply, slice);
    }
    timer.stop();
  };
  try {
    const auto room = reply.room().first(std::min<size_t>(request.size, reply.room().size()));
    if (const auto size = volume_.read_now(request.ino, request.offset, request.size, room)) {
      reply.bytes(room.first(*size));
      timer.stop();
      return;
    }
    const auto slice = volume_.read(request.ino, request.offset, request.size, finish_read,
                                    FileReads::Shape::kParts);
    if (slice) finish_read(*slice, nullptr);
  } catch (...) {
    finish_read({}, std::current_exception());
  }
}

int Operations::read_failed(Ino ino, const std::exception_ptr& error) {
  int number = EIO;
  std::string reason;
  try {
    std::rethrow_exception(error);
  } catch (const StorageError& refused) {
    number = refused.code();
    reason = refused.what();
  } catch (const TooLargeError& refused) {
    number = EFBIG;
    reason = refused.what();
  } catch (const std::bad_alloc&) {
    number = ENOMEM;
    reason = "out of memory";
  } catch (const std::exception& bad) {
    reason = bad.what();
  }
  if (const auto counted = volume_.note_failure(ino)) {
    const std::string path = volume_.path(ino);
    log_failure(*counted, path.empty() ? "/" : path, reason);
  }
  return number;
}

void Operations::readdirplus(const Request& request, const Reply& reply) {
  answer_from(reply, RequestKind::kReaddir, Need::kEntries, request.ino, {},
              [this, reply, ino = request.ino, size = request.size, begin = request.offset](
                  const Tree& part, std::string_view) {
    const auto inode = part.inode(ino);
    if (!inode || !inode->is_directory()) {
      reply.error(inode ? ENOTDIR : ESTALE);
      return;
    }
    ListingReply listing(size, begin);
    bool fits = true;
    if (listing.position() == 0) fits = listing.add(".", volume_.attributes(part, ino).value());
    if (fits && listing.position() == 1) {
      fits = listing.add("..", volume_.attributes(part, inode->parent).value());
    }
    if (fits) listing.add_entries(volume_, part, ino);
    reply.bytes(listing.bytes());
  });
}

void Operations::statfs(const Reply& reply) {
  answer(volume_, RequestKind::kStatfs, reply, [&] {
    fuse::StatfsOut info{};
    info.bsize = info.frsize = kStatfsBlockSize;
    info.blocks = (volume_.byte_count() + kStatfsBlockSize - 1) / kStatfsBlockSize;
    info.files = volume_.tree().file_count() + volume_.tree().directory_count();
    info.namelen = kNameMax;
    reply.value(info);
  });
}

void Operations::getxattr(const Request& request, const Reply& reply) {
  if (!options_.xattr) return finish(reply, RequestKind::kGetxattr, ENOSYS);  // never asked again
  answer_from(reply, RequestKind::kGetxattr, Need::kInode, request.ino, request.name,
              [this, reply, ino = request.ino, size = request.size](const Tree& part,
                                                                    std::string_view wanted) {
    const auto contents = part.contents(ino);
    if (contents && wanted == kRecordName) {
      return reply_xattr(reply, std::to_string(contents->record), size);
    }
    const auto crc32 =
        contents && wanted == kCrc32Name ? volume_.stored_crc32(*contents) : std::nullopt;
    if (!crc32) {
      reply.error(ENODATA);
      return;
    }
    std::array<char, 9> text{};
    std::snprintf(text.data(), text.size(), "%08x", *crc32);
    reply_xattr(reply, text.data(), size);
  });
}

void Operations::listxattr(const Request& request, const Reply& reply) {
  if (!options_.xattr) return finish(reply, RequestKind::kListxattr, ENOSYS);
  answer_from(reply, RequestKind::kListxattr, Need::kInode, request.ino, {},
              [this, reply, ino = request.ino, size = request.size](const Tree& part,
                                                                    std::string_view) {
    const auto contents = part.contents(ino);
    std::string names;
    if (contents) {
      (names += kRecordName) += '\0';
      if (volume_.stored_crc32(*contents)) (names += kCrc32Name) += '\0';
    }
    reply_xattr(reply, names, size);
  });
}

}  // namespace ffrfs
