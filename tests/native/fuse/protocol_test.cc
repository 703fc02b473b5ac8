// native/fuse: our structures equal those of the installed kernel header.

#include <doctest/doctest.h>
#include <linux/fuse.h>

#include <cstddef>

#include "fuse/protocol.h"

using namespace ffrfs;

#define SAME_SIZE(ours, theirs) CHECK(sizeof(fuse::ours) == sizeof(struct theirs))
#define SAME_PLACE(ours, our_field, theirs, their_field)                     \
  do {                                                                       \
    CHECK(offsetof(fuse::ours, our_field) == offsetof(theirs, their_field)); \
    CHECK(sizeof(fuse::ours::our_field) == sizeof(theirs::their_field));     \
  } while (false)

TEST_CASE("structures have the kernel's layout") {
  SAME_SIZE(InHeader, fuse_in_header);
  SAME_PLACE(InHeader, opcode, fuse_in_header, opcode);
  SAME_PLACE(InHeader, unique, fuse_in_header, unique);
  SAME_PLACE(InHeader, nodeid, fuse_in_header, nodeid);
  SAME_PLACE(InHeader, uid, fuse_in_header, uid);
  SAME_SIZE(OutHeader, fuse_out_header);
  SAME_PLACE(OutHeader, error, fuse_out_header, error);
  SAME_PLACE(OutHeader, unique, fuse_out_header, unique);
  SAME_SIZE(InitIn, fuse_init_in);
  SAME_PLACE(InitIn, flags, fuse_init_in, flags);
  SAME_PLACE(InitIn, flags2, fuse_init_in, flags2);
  SAME_SIZE(InitOut, fuse_init_out);
  SAME_PLACE(InitOut, max_background, fuse_init_out, max_background);
  SAME_PLACE(InitOut, max_pages, fuse_init_out, max_pages);
  SAME_PLACE(InitOut, flags2, fuse_init_out, flags2);
  SAME_SIZE(Attr, fuse_attr);
  SAME_PLACE(Attr, mtimensec, fuse_attr, mtimensec);
  SAME_PLACE(Attr, nlink, fuse_attr, nlink);
  SAME_PLACE(Attr, blksize, fuse_attr, blksize);
  SAME_SIZE(EntryOut, fuse_entry_out);
  SAME_PLACE(EntryOut, attr_valid_nsec, fuse_entry_out, attr_valid_nsec);
  SAME_SIZE(AttrOut, fuse_attr_out);
  SAME_PLACE(AttrOut, attr, fuse_attr_out, attr);
  SAME_SIZE(OpenIn, fuse_open_in);
  SAME_SIZE(OpenOut, fuse_open_out);
  SAME_PLACE(OpenOut, open_flags, fuse_open_out, open_flags);
  SAME_SIZE(ReadIn, fuse_read_in);
  SAME_PLACE(ReadIn, offset, fuse_read_in, offset);
  SAME_PLACE(ReadIn, size, fuse_read_in, size);
  SAME_SIZE(GetxattrIn, fuse_getxattr_in);
  SAME_SIZE(GetxattrOut, fuse_getxattr_out);
  SAME_SIZE(StatfsOut, fuse_statfs_out);
  SAME_PLACE(StatfsOut, files, fuse_kstatfs, files);
  SAME_PLACE(StatfsOut, bsize, fuse_kstatfs, bsize);
  SAME_PLACE(StatfsOut, namelen, fuse_kstatfs, namelen);
  SAME_PLACE(StatfsOut, frsize, fuse_kstatfs, frsize);
  CHECK(sizeof(fuse::Dirent) == FUSE_NAME_OFFSET);
  SAME_PLACE(Dirent, off, fuse_dirent, off);
  SAME_PLACE(Dirent, type, fuse_dirent, type);
  CHECK(sizeof(fuse::DirentPlus) == FUSE_NAME_OFFSET_DIRENTPLUS);
  SAME_SIZE(NotifyStoreOut, fuse_notify_store_out);
}

TEST_CASE("constants have the kernel's values") {
  CHECK(fuse::kMajor == FUSE_KERNEL_VERSION);
  const auto is = [](fuse::Opcode ours, unsigned theirs) {
    return static_cast<unsigned>(ours) == theirs;
  };
  CHECK(is(fuse::Opcode::kLookup, FUSE_LOOKUP));
  CHECK(is(fuse::Opcode::kForget, FUSE_FORGET));
  CHECK(is(fuse::Opcode::kGetattr, FUSE_GETATTR));
  CHECK(is(fuse::Opcode::kSetattr, FUSE_SETATTR));
  CHECK(is(fuse::Opcode::kReadlink, FUSE_READLINK));
  CHECK(is(fuse::Opcode::kSymlink, FUSE_SYMLINK));
  CHECK(is(fuse::Opcode::kMknod, FUSE_MKNOD));
  CHECK(is(fuse::Opcode::kMkdir, FUSE_MKDIR));
  CHECK(is(fuse::Opcode::kUnlink, FUSE_UNLINK));
  CHECK(is(fuse::Opcode::kRmdir, FUSE_RMDIR));
  CHECK(is(fuse::Opcode::kRename, FUSE_RENAME));
  CHECK(is(fuse::Opcode::kRename2, FUSE_RENAME2));
  CHECK(is(fuse::Opcode::kLink, FUSE_LINK));
  CHECK(is(fuse::Opcode::kOpen, FUSE_OPEN));
  CHECK(is(fuse::Opcode::kRead, FUSE_READ));
  CHECK(is(fuse::Opcode::kWrite, FUSE_WRITE));
  CHECK(is(fuse::Opcode::kStatfs, FUSE_STATFS));
  CHECK(is(fuse::Opcode::kRelease, FUSE_RELEASE));
  CHECK(is(fuse::Opcode::kSetxattr, FUSE_SETXATTR));
  CHECK(is(fuse::Opcode::kGetxattr, FUSE_GETXATTR));
  CHECK(is(fuse::Opcode::kListxattr, FUSE_LISTXATTR));
  CHECK(is(fuse::Opcode::kRemovexattr, FUSE_REMOVEXATTR));
  CHECK(is(fuse::Opcode::kFlush, FUSE_FLUSH));
  CHECK(is(fuse::Opcode::kInit, FUSE_INIT));
  CHECK(is(fuse::Opcode::kOpendir, FUSE_OPENDIR));
  CHECK(is(fuse::Opcode::kReaddir, FUSE_READDIR));
  CHECK(is(fuse::Opcode::kReaddirplus, FUSE_READDIRPLUS));
  CHECK(is(fuse::Opcode::kReleasedir, FUSE_RELEASEDIR));
  CHECK(is(fuse::Opcode::kCreate, FUSE_CREATE));
  CHECK(is(fuse::Opcode::kInterrupt, FUSE_INTERRUPT));
  CHECK(is(fuse::Opcode::kDestroy, FUSE_DESTROY));
  CHECK(is(fuse::Opcode::kBatchForget, FUSE_BATCH_FORGET));
  CHECK(fuse::kAsyncRead == FUSE_ASYNC_READ);
  CHECK(fuse::kDoReaddirplus == FUSE_DO_READDIRPLUS);
  CHECK(fuse::kAsyncDio == FUSE_ASYNC_DIO);
  CHECK(fuse::kNoOpenSupport == FUSE_NO_OPEN_SUPPORT);
  CHECK(fuse::kParallelDirops == FUSE_PARALLEL_DIROPS);
  CHECK(fuse::kMaxPages == FUSE_MAX_PAGES);
  CHECK(fuse::kCacheSymlinks == FUSE_CACHE_SYMLINKS);
  CHECK(fuse::kNoOpendirSupport == FUSE_NO_OPENDIR_SUPPORT);
  CHECK(fuse::kInitExt == FUSE_INIT_EXT);
  CHECK(fuse::kKeepCache == FOPEN_KEEP_CACHE);
  CHECK(fuse::kCacheDir == FOPEN_CACHE_DIR);
  CHECK(fuse::kNotifyStore == FUSE_NOTIFY_STORE);
#ifdef FUSE_OVER_IO_URING
  CHECK(fuse::kOverIoUring == FUSE_OVER_IO_URING);
#endif
}
