#include "fuse/operations.h"

#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "fuse/answer.h"
#include "fuse/inode_reply.h"
#include "fuse/log.h"
#include "io/error.h"

namespace ffrfs {
namespace {

constexpr unsigned kBackgroundRequestsMax = 64;
constexpr unsigned long kStatfsBlockSize = 4096;
constexpr size_t kNameMax = 255;

Operations& self(fuse_req_t request) {
  return *static_cast<Operations*>(fuse_req_userdata(request));
}

constexpr Ino kNoIno = 0;  // of a request that needs no file to answer it

template <typename Body>
void answer(Volume& volume, RequestKind kind, fuse_req_t request, Body body) noexcept {
  answer(RequestTimer(volume, kind, kNoIno), request, std::move(body));
}

// The value, or its size if the caller only asks for that.
void reply_xattr(fuse_req_t request, std::string_view value, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, value.size());
  } else if (size < value.size()) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, value.data(), value.size());
  }
}

// Callbacks of what would change the tree: reached only if somebody remounts it rw.
template <typename... Arguments>
void refuse(fuse_req_t request, Arguments...) {
  self(request).finish(request, RequestKind::kRefuse, EROFS);
}

constexpr std::string_view kRecordName = "user.ffrfs.record";
constexpr std::string_view kCrc32Name = "user.ffrfs.crc32";

}  // namespace

void Operations::init(fuse_conn_info& connection) {
  // Always, so that one listing fills the kernel's inode cache and stat() costs nothing.
  connection.want |= connection.capable & FUSE_CAP_READDIRPLUS;
  connection.want &= ~static_cast<unsigned>(
      FUSE_CAP_READDIRPLUS_AUTO |
      // Nothing changes: no need to look whether it has.
      FUSE_CAP_AUTO_INVAL_DATA |
      // Replies are from our memory, and requests are small: splicing only costs.
      FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  connection.want |= connection.capable & FUSE_CAP_CACHE_SYMLINKS;
  connection.max_background = kBackgroundRequestsMax;
  connection.congestion_threshold = kBackgroundRequestsMax * 3 / 4;
  constexpr unsigned no_opens = FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT;
  if ((connection.capable & no_opens) != no_opens) send_opens_ = true;
}

void Operations::finish(fuse_req_t request, RequestKind kind, int error_number) {
  answer(volume_, kind, request, [&] { fuse_reply_err(request, error_number); });
}

template <typename Body>
void Operations::answer_from(fuse_req_t request, RequestKind kind, Need need, Ino ino,
                             std::string_view name, Body body) noexcept {
  const RequestTimer timer(volume_, kind, ino);
  const auto fail = [this, request, timer, ino](const std::exception_ptr& error) {
    answer(timer, request, [&] { fuse_reply_err(request, read_failed(ino, error)); });
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

void Operations::lookup(fuse_req_t request, Ino parent, std::string_view name) {
  answer_from(request, RequestKind::kLookup, Need::kEntries, parent, name,
              [this, request, parent](const Tree& part, std::string_view wanted) {
    const Ino ino = part.lookup(parent, wanted);
    if (ino != 0) {
      const fuse_entry_param entry = to_entry(volume_.attributes(part, ino).value());
      fuse_reply_entry(request, &entry);
    } else if (wanted.size() > kNameMax) {  // the kernel lets up to 1024 bytes through
      fuse_reply_err(request, ENAMETOOLONG);
    } else {
      fuse_entry_param absent{};  // inode 0: the kernel remembers that there is nothing
      absent.entry_timeout = kTimeoutS;
      fuse_reply_entry(request, &absent);
    }
  });
}

void Operations::getattr(fuse_req_t request, Ino ino) {
  answer_from(request, RequestKind::kGetattr, Need::kInode, ino, {},
              [this, request, ino](const Tree& part, std::string_view) {
    if (const auto attributes = volume_.attributes(part, ino)) {
      const struct stat info = to_stat(*attributes);
      fuse_reply_attr(request, &info, kTimeoutS);
    } else {
      fuse_reply_err(request, ESTALE);
    }
  });
}

void Operations::readlink(fuse_req_t request, Ino ino) {
  answer_from(request, RequestKind::kReadlink, Need::kInode, ino, {},
              [request, ino](const Tree& part, std::string_view) {
    const std::string target = part.target(ino);
    if (target.empty()) {
      fuse_reply_err(request, EINVAL);  // no link
    } else {
      fuse_reply_readlink(request, target.c_str());
    }
  });
}

void Operations::open(fuse_req_t request, Ino, fuse_file_info& info) {
  answer(volume_, RequestKind::kOpen, request, [&] {
    if ((info.flags & O_ACCMODE) != O_RDONLY) {
      fuse_reply_err(request, EROFS);
    } else if (!send_opens_) {
      fuse_reply_err(request, ENOSYS);  // neither OPEN nor FLUSH nor RELEASE any more
    } else {
      info.keep_cache = 1;
      fuse_reply_open(request, &info);
    }
  });
}

void Operations::opendir(fuse_req_t request, Ino, fuse_file_info& info) {
  answer(volume_, RequestKind::kOpendir, request, [&] {
    if (!send_opens_) {
      fuse_reply_err(request, ENOSYS);
    } else {
      info.keep_cache = info.cache_readdir = 1;
      fuse_reply_open(request, &info);
    }
  });
}

void Operations::read(fuse_req_t request, Ino ino, size_t size, uint64_t offset) {
  const RequestTimer timer(volume_, RequestKind::kRead, ino);
  const auto reply = [this, request, ino, timer](const Slice& slice,
                                                 const std::exception_ptr& error) {
    if (error) {
      fuse_reply_err(request, read_failed(ino, error));
    } else {
      fuse_reply_buf(request, reinterpret_cast<const char*>(slice.bytes.data()),
                     slice.bytes.size());
    }
    timer.stop();
  };
  try {
    if (const auto slice = volume_.read(ino, offset, size, reply)) reply(*slice, nullptr);
  } catch (...) {
    reply({}, std::current_exception());
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

void Operations::readdirplus(fuse_req_t request, Ino ino, size_t size, uint64_t begin) {
  answer_from(request, RequestKind::kReaddir, Need::kEntries, ino, {},
              [this, request, ino, size, begin](const Tree& part, std::string_view) {
    const auto inode = part.inode(ino);
    if (!inode || !inode->is_directory()) {
      fuse_reply_err(request, inode ? ENOTDIR : ESTALE);
      return;
    }
    ListingReply reply(request, size, begin);
    bool fits = true;
    if (reply.position() == 0) fits = reply.add(".", volume_.attributes(part, ino).value());
    if (fits && reply.position() == 1) {
      fits = reply.add("..", volume_.attributes(part, inode->parent).value());
    }
    if (fits) reply.add_entries(volume_, part, ino);
    reply.send();
  });
}

void Operations::statfs(fuse_req_t request) {
  answer(volume_, RequestKind::kStatfs, request, [&] {
    struct statvfs info {};
    info.f_bsize = info.f_frsize = kStatfsBlockSize;
    info.f_blocks = (volume_.byte_count() + kStatfsBlockSize - 1) / kStatfsBlockSize;
    info.f_files = volume_.tree().file_count() + volume_.tree().directory_count();
    info.f_namemax = kNameMax;
    fuse_reply_statfs(request, &info);
  });
}

void Operations::getxattr(fuse_req_t request, Ino ino, std::string_view name, size_t size) {
  if (!xattr_) return finish(request, RequestKind::kGetxattr, ENOSYS);  // never asked again
  answer_from(request, RequestKind::kGetxattr, Need::kInode, ino, name,
              [this, request, ino, size](const Tree& part, std::string_view wanted) {
    const auto contents = part.contents(ino);
    if (contents && wanted == kRecordName) {
      return reply_xattr(request, std::to_string(contents->record), size);
    }
    const auto crc32 =
        contents && wanted == kCrc32Name ? volume_.stored_crc32(*contents) : std::nullopt;
    if (!crc32) {
      fuse_reply_err(request, ENODATA);
      return;
    }
    std::array<char, 9> text{};
    std::snprintf(text.data(), text.size(), "%08x", *crc32);
    reply_xattr(request, text.data(), size);
  });
}

void Operations::listxattr(fuse_req_t request, Ino ino, size_t size) {
  if (!xattr_) return finish(request, RequestKind::kListxattr, ENOSYS);
  answer_from(request, RequestKind::kListxattr, Need::kInode, ino, {},
              [this, request, ino, size](const Tree& part, std::string_view) {
    const auto contents = part.contents(ino);
    std::string names;
    if (contents) {
      (names += kRecordName) += '\0';
      if (volume_.stored_crc32(*contents)) (names += kCrc32Name) += '\0';
    }
    reply_xattr(request, names, size);
  });
}

const fuse_lowlevel_ops& Operations::table() {
  static const fuse_lowlevel_ops table = [] {
    fuse_lowlevel_ops ops{};
    ops.init = [](void* userdata, fuse_conn_info* connection) {
      static_cast<Operations*>(userdata)->init(*connection);
    };
    ops.lookup = [](fuse_req_t request, fuse_ino_t parent, const char* name) {
      self(request).lookup(request, parent, name);
    };
    // Inode numbers are computed: nothing is counted, nothing to be forgotten.
    ops.forget = [](fuse_req_t request, fuse_ino_t, uint64_t) { fuse_reply_none(request); };
    ops.forget_multi = [](fuse_req_t request, size_t, fuse_forget_data*) {
      fuse_reply_none(request);
    };
    ops.getattr = [](fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
      self(request).getattr(request, ino);
    };
    ops.readlink = [](fuse_req_t request, fuse_ino_t ino) { self(request).readlink(request, ino); };
    ops.open = [](fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
      self(request).open(request, ino, *info);
    };
    ops.read = [](fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
      self(request).read(request, ino, size, static_cast<uint64_t>(offset));
    };
    ops.opendir = [](fuse_req_t request, fuse_ino_t ino, fuse_file_info* info) {
      self(request).opendir(request, ino, *info);
    };
    ops.readdirplus = [](fuse_req_t request, fuse_ino_t ino, size_t size, off_t position,
                         fuse_file_info*) {
      self(request).readdirplus(request, ino, size, static_cast<uint64_t>(position));
    };
    ops.release = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
      self(request).finish(request, RequestKind::kRelease, 0);
    };
    ops.releasedir = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
      self(request).finish(request, RequestKind::kReleasedir, 0);
    };
    // Only where opens are sent; never again after the first.
    ops.flush = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
      fuse_reply_err(request, ENOSYS);
    };
    ops.statfs = [](fuse_req_t request, fuse_ino_t) { self(request).statfs(request); };
    ops.getxattr = [](fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
      self(request).getxattr(request, ino, name, size);
    };
    ops.listxattr = [](fuse_req_t request, fuse_ino_t ino, size_t size) {
      self(request).listxattr(request, ino, size);
    };
    ops.setattr = refuse;
    ops.mknod = refuse;
    ops.mkdir = refuse;
    ops.unlink = refuse;
    ops.rmdir = refuse;
    ops.symlink = refuse;
    ops.rename = refuse;
    ops.link = refuse;
    ops.write = refuse;
    ops.create = refuse;
    ops.setxattr = refuse;
    ops.removexattr = refuse;
    return ops;
  }();
  return table;
}

}  // namespace ffrfs
