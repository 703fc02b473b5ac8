// The part of the FUSE protocol that a read-only tree needs: the structures of the kernel's header
// include/uapi/linux/fuse.h, protocol 7.42 (Linux 6.14, which added io_uring). They are part of the
// kernel's ABI: they never change, they only grow at their ends.
//
// A test compares them with the installed header.

#pragma once

#include <cstddef>
#include <cstdint>

namespace ffrfs::fuse {

inline constexpr uint32_t kMajor = 7;
inline constexpr uint32_t kMinor = 42;
inline constexpr uint32_t kMinorMin = 23;  // Linux 3.15: the answer to INIT has today's size since

enum class Opcode : uint32_t {
  kLookup = 1,
  kForget = 2,  // no answer
  kGetattr = 3,
  kSetattr = 4,
  kReadlink = 5,
  kSymlink = 6,
  kMknod = 8,
  kMkdir = 9,
  kUnlink = 10,
  kRmdir = 11,
  kRename = 12,
  kLink = 13,
  kOpen = 14,
  kRead = 15,
  kWrite = 16,
  kStatfs = 17,
  kRelease = 18,
  kFsync = 20,
  kSetxattr = 21,
  kGetxattr = 22,
  kListxattr = 23,
  kRemovexattr = 24,
  kFlush = 25,
  kInit = 26,
  kOpendir = 27,
  kReaddir = 28,
  kReleasedir = 29,
  kFsyncdir = 30,
  kCreate = 35,
  kInterrupt = 36,  // no answer
  kDestroy = 38,
  kBatchForget = 42,  // no answer
  kReaddirplus = 44,
  kRename2 = 45,
};

// Flags of INIT; those from bit 32 on are in `flags2`.
enum InitFlag : uint64_t {
  kAsyncRead = 1ULL << 0,
  kExportSupport = 1ULL << 4,
  kDoReaddirplus = 1ULL << 13,
  kAsyncDio = 1ULL << 15,
  kNoOpenSupport = 1ULL << 17,
  kParallelDirops = 1ULL << 18,
  kMaxPages = 1ULL << 22,
  kCacheSymlinks = 1ULL << 23,
  kNoOpendirSupport = 1ULL << 24,
  kInitExt = 1ULL << 30,
  kHasResend = 1ULL << 39,
  kOverIoUring = 1ULL << 41,
};

// Flags of an answer to OPEN and OPENDIR.
inline constexpr uint32_t kKeepCache = 1U << 1;
inline constexpr uint32_t kCacheDir = 1U << 3;

// The "error" of a message that is not an answer: NOTIFY_STORE, NOTIFY_RESEND.
inline constexpr int32_t kNotifyStore = 4;
inline constexpr int32_t kNotifyResend = 7;

// The bit of InHeader::unique in a request that the kernel resends.
inline constexpr uint64_t kResent = uint64_t{1} << 63;

struct InHeader {
  uint32_t len;  // of the whole message
  uint32_t opcode;
  uint64_t unique;  // of the request
  uint64_t nodeid;
  uint32_t uid;
  uint32_t gid;
  uint32_t pid;
  uint16_t total_extlen;
  uint16_t padding;
};

struct OutHeader {
  uint32_t len;  // of the whole message
  int32_t error;  // 0, or a negative errno
  uint64_t unique;
};

struct InitIn {
  uint32_t major;
  uint32_t minor;
  uint32_t max_readahead;
  uint32_t flags;
  uint32_t flags2;  // from 7.36 on
  uint32_t unused[11];
};
inline constexpr size_t kInitInSizeMin = 16;  // before 7.36

struct InitOut {
  uint32_t major;
  uint32_t minor;
  uint32_t max_readahead;
  uint32_t flags;
  uint16_t max_background;
  uint16_t congestion_threshold;
  uint32_t max_write;
  uint32_t time_gran;
  uint16_t max_pages;
  uint16_t map_alignment;
  uint32_t flags2;
  uint32_t unused[7];
};

struct Attr {
  uint64_t ino;
  uint64_t size;
  uint64_t blocks;
  uint64_t atime;
  uint64_t mtime;
  uint64_t ctime;
  uint32_t atimensec;
  uint32_t mtimensec;
  uint32_t ctimensec;
  uint32_t mode;
  uint32_t nlink;
  uint32_t uid;
  uint32_t gid;
  uint32_t rdev;
  uint32_t blksize;
  uint32_t flags;
};

struct EntryOut {
  uint64_t nodeid;  // 0: the name does not exist, and the kernel may cache that
  uint64_t generation;
  uint64_t entry_valid;  // seconds
  uint64_t attr_valid;
  uint32_t entry_valid_nsec;
  uint32_t attr_valid_nsec;
  Attr attr;
};

struct AttrOut {
  uint64_t attr_valid;
  uint32_t attr_valid_nsec;
  uint32_t dummy;
  Attr attr;
};

struct InterruptIn {
  uint64_t unique;  // of the interrupted request
};

struct OpenIn {  // for OPEN and OPENDIR
  uint32_t flags;  // of open(2)
  uint32_t open_flags;
};

struct OpenOut {
  uint64_t fh;
  uint32_t open_flags;
  int32_t backing_id;
};

struct ReadIn {  // for READ, READDIR and READDIRPLUS
  uint64_t fh;
  uint64_t offset;
  uint32_t size;
  uint32_t read_flags;
  uint64_t lock_owner;
  uint32_t flags;
  uint32_t padding;
};

struct GetxattrIn {  // for GETXATTR and LISTXATTR
  uint32_t size;  // 0: asks only for the size
  uint32_t padding;
};

struct GetxattrOut {
  uint32_t size;
  uint32_t padding;
};

struct StatfsOut {
  uint64_t blocks;
  uint64_t bfree;
  uint64_t bavail;
  uint64_t files;
  uint64_t ffree;
  uint32_t bsize;
  uint32_t namelen;
  uint32_t frsize;
  uint32_t padding;
  uint32_t spare[6];
};

struct Dirent {  // the name follows, and zeros up to a multiple of 8 bytes
  uint64_t ino;
  uint64_t off;  // position of the next entry
  uint32_t namelen;
  uint32_t type;
};

struct DirentPlus {
  EntryOut entry;
  Dirent dirent;
};

struct NotifyStoreOut {  // the bytes follow
  uint64_t nodeid;
  uint64_t offset;
  uint32_t size;
  uint32_t padding;
};

// Over io_uring: the kernel fills this for a request, and reads it for its answer. `in_out` has the
// InHeader, and then the OutHeader; `op_in` the fixed part of the request. The other parts of a
// request or an answer are in the entry's payload.
struct RingHeader {
  std::byte in_out[128];
  std::byte op_in[128];
  uint64_t flags;
  uint64_t commit_id;
  uint32_t payload_size;
  uint32_t padding;
  uint64_t reserved;
};

// The command's 80 bytes in a submission.
struct RingCommand {
  uint64_t flags;
  uint64_t commit_id;  // of the request that is answered
  uint16_t queue;
  uint8_t padding[6];
};
inline constexpr uint32_t kRegister = 1;
inline constexpr uint32_t kCommitAndFetch = 2;

static_assert(sizeof(InHeader) == 40 && sizeof(OutHeader) == 16);
static_assert(sizeof(InitIn) == 64 && sizeof(InitOut) == 64);
static_assert(sizeof(EntryOut) == 128 && sizeof(AttrOut) == 104 && sizeof(DirentPlus) == 152);
static_assert(sizeof(ReadIn) == 40 && sizeof(StatfsOut) == 80 && sizeof(RingHeader) == 288);

}  // namespace ffrfs::fuse
