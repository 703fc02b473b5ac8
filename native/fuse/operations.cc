#include "fuse/operations.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "fuse/log.h"
#include "io/error.h"

namespace ffrfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimeoutS = 365.0 * 24 * 3600;
constexpr unsigned kBackgroundRequestsMax = 64;
constexpr uint64_t kBlockSize = 512;  // what st_blocks counts in, whatever the file system
constexpr unsigned long kStatfsBlockSize = 4096;
constexpr size_t kNameMax = 255;
constexpr int64_t kNsPerS = 1'000'000'000;
// What an entry takes in a listing, but for its name and the filling up to 8 bytes.
constexpr size_t kDirentPlusSize = 152;
// Positions of a listing: 0 is ".", 1 is "..", the entries follow in the volume's order.
constexpr uint64_t kDotCount = 2;

// One request while it is worked on: its answer's time is counted when this ends.
class Timer {
 public:
  Timer(Volume& volume, RequestKind kind, Ino ino) : volume_(volume), kind_(kind), ino_(ino) {}
  void stop() const {
    const auto elapsed = Clock::now() - begin_;
    volume_.note_request(
        kind_, ino_, static_cast<uint64_t>(
                         std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()));
  }

 private:
  Volume& volume_;
  const RequestKind kind_;
  const Ino ino_;
  const Clock::time_point begin_ = Clock::now();
};

Operations& self(fuse_req_t request) {
  return *static_cast<Operations*>(fuse_req_userdata(request));
}

constexpr Ino kNoIno = 0;  // of a request that needs no file to answer it

// Runs a callback's body; what it throws becomes the answer.
template <typename Body>
void answer(const Timer& timer, fuse_req_t request, Body body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
    fuse_reply_err(request, ENOMEM);
  } catch (const std::exception& error) {
    log_line(Priority::kError, std::string("request failed: ") + error.what());
    fuse_reply_err(request, EIO);
  }
  timer.stop();
}

template <typename Body>
void answer(Volume& volume, RequestKind kind, fuse_req_t request, Body body) noexcept {
  answer(Timer(volume, kind, kNoIno), request, std::move(body));
}

struct stat to_stat(const Attributes& attributes) {
  struct stat info {};
  info.st_ino = attributes.ino;
  info.st_mode = attributes.mode;
  info.st_nlink = attributes.nlink;
  info.st_uid = attributes.uid;
  info.st_gid = attributes.gid;
  info.st_size = static_cast<off_t>(attributes.size);
  info.st_blocks = static_cast<blkcnt_t>((attributes.size + kBlockSize - 1) / kBlockSize);
  int64_t seconds = attributes.mtime_ns / kNsPerS;
  int64_t nanoseconds = attributes.mtime_ns % kNsPerS;
  if (nanoseconds < 0) {  // before 1970
    nanoseconds += kNsPerS;
    --seconds;
  }
  info.st_mtim = {.tv_sec = seconds, .tv_nsec = nanoseconds};
  info.st_atim = info.st_ctim = info.st_mtim;
  return info;
}

fuse_entry_param to_entry(const Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = attributes.ino;
  entry.attr = to_stat(attributes);
  entry.attr_timeout = entry.entry_timeout = kTimeoutS;
  return entry;
}

// How many of them fit into a listing of that size.
size_t fitting_count(const std::vector<Dentry>& entries, size_t size) {
  size_t count = 0;
  for (const Dentry& entry : entries) {
    const size_t needed = (kDirentPlusSize + entry.name.size() + 7) / 8 * 8;
    if (needed > size) break;
    size -= needed;
    ++count;
  }
  return count;
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
void Operations::answer_from(fuse_req_t request, RequestKind kind, About about, Ino ino,
                             std::string_view name, Body body) noexcept {
  const Timer timer(volume_, kind, ino);
  const auto fail = [this, request, timer, ino](const std::exception_ptr& error) {
    answer(timer, request, [&] { fuse_reply_err(request, read_failed(ino, error)); });
  };
  try {
    TreePtr part = volume_.tree_at(about, ino);
    if (!part) {
      part = volume_.tree_at(about, ino, [timer, fail, name = std::string(name), body](
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
  answer_from(request, RequestKind::kLookup, About::kEntries, parent, name,
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
  answer_from(request, RequestKind::kGetattr, About::kInode, ino, {},
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
  answer_from(request, RequestKind::kReadlink, About::kInode, ino, {},
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
  const Timer timer(volume_, RequestKind::kRead, ino);
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
  } catch (const std::bad_alloc&) {
    number = ENOMEM;
    reason = "out of memory";
  } catch (const std::exception& bad) {
    reason = bad.what();
  }
  if (volume_.failure_is_due(ino)) {
    const std::string path = volume_.path(ino);
    log_line(Priority::kError, "cannot read " + (path.empty() ? "/" : path) + ": " + reason);
  }
  return number;
}

void Operations::readdirplus(fuse_req_t request, Ino ino, size_t size, uint64_t begin) {
  answer_from(request, RequestKind::kReaddir, About::kEntries, ino, {},
              [this, request, ino, size, begin](const Tree& part, std::string_view) {
    const auto inode = part.inode(ino);
    if (!inode || !inode->is_directory()) {
      fuse_reply_err(request, inode ? ENOTDIR : ESTALE);
      return;
    }
    std::vector<char> reply(size);
    size_t used = 0;
    uint64_t position = begin;
    const auto add = [&](const char* name, const Attributes& attributes) {
      const fuse_entry_param entry = to_entry(attributes);
      const size_t needed = fuse_add_direntry_plus(request, reply.data() + used, size - used, name,
                                                   &entry, static_cast<off_t>(position + 1));
      if (needed > size - used) return false;
      used += needed;
      ++position;
      return true;
    };
    bool fits = true;
    if (position == 0) fits = add(".", volume_.attributes(part, ino).value());
    if (fits && position == 1) fits = add("..", volume_.attributes(part, inode->parent).value());
    if (fits) {
      auto entries = part.list(ino, position - kDotCount, (size - used) / (kDirentPlusSize + 1));
      entries.resize(fitting_count(entries, size - used));
      const auto attributes = volume_.attributes(part, entries);
      for (size_t i = 0; i < entries.size(); ++i) add(entries[i].name.c_str(), attributes[i]);
    }
    fuse_reply_buf(request, reply.data(), used);
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
  answer_from(request, RequestKind::kGetxattr, About::kInode, ino, name,
              [this, request, ino, size](const Tree& part, std::string_view wanted) {
    const auto inode = part.inode(ino);
    if (!inode || !inode->is_file()) {
      fuse_reply_err(request, ENODATA);
    } else if (wanted == kRecordName) {
      reply_xattr(request, std::to_string(inode->record), size);
    } else if (wanted == kCrc32Name && shows_crc32()) {
      std::array<char, 9> text{};
      std::snprintf(text.data(), text.size(), "%08x", volume_.extent(ino).crc32);
      reply_xattr(request, text.data(), size);
    } else {
      fuse_reply_err(request, ENODATA);
    }
  });
}

void Operations::listxattr(fuse_req_t request, Ino ino, size_t size) {
  if (!xattr_) return finish(request, RequestKind::kListxattr, ENOSYS);
  answer_from(request, RequestKind::kListxattr, About::kInode, ino, {},
              [this, request, ino, size](const Tree& part, std::string_view) {
    const auto inode = part.inode(ino);
    std::string names;
    if (inode && inode->is_file()) {
      (names += kRecordName) += '\0';
      if (shows_crc32()) (names += kCrc32Name) += '\0';
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
