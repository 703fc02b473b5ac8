// The inodes and dentries of a read-only tree.
//
// A tree is immutable once it is opened, so any number of threads may use it without a lock, and an
// inode number is computed, never allocated: the kernel may forget or remember it without notice.
//
// A tree may use bytes that are verified at their first access (mapped_tree.h): so every call may
// throw FormatError, ChecksumError or StorageError, and a later one succeed.
//
// Not here: bytes, sizes and checksums of records (shard/shard.h; contents() returns the record of
// a file, and an inode has a size only if that is not the record's), owners, and what a mount shows
// if modes and times are unknown (volume), FUSE.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ffrfs {

using Ino = uint64_t;
inline constexpr Ino kRootIno = 1;

enum class InodeKind : uint8_t { kFile, kDirectory, kSymlink };

// One inode. A file has the number of its record among all of the volume's shards; a directory has
// the number of its entries.
struct Inode {
  InodeKind kind = InodeKind::kFile;
  uint64_t record = 0;  // files only
  // The size of a file that is a part of its record (other files have the record's size), or of a
  // symbolic link's target.
  std::optional<uint64_t> size = std::nullopt;
  uint64_t entry_count = 0;  // directories only; in a union those of the first part
  uint64_t subdirectory_count = 0;  // directories only
  bool may_hide_some = false;  // of these subdirectories
  Ino parent = kRootIno;  // the root is its own parent
  std::optional<uint16_t> mode = std::nullopt;  // permissions, 0777; nullopt: unknown
  std::optional<int64_t> mtime_ns = std::nullopt;  // since 1970; nullopt: unknown

  bool operator==(const Inode&) const = default;
  [[nodiscard]] bool is_file() const { return kind == InodeKind::kFile; }
  [[nodiscard]] bool is_directory() const { return kind == InodeKind::kDirectory; }
};

// The source of a file's bytes: a record, or a part of one, as it is or rendered (Tree::render()).
struct Contents {
  uint64_t record = 0;  // among all shards
  uint64_t begin = 0;  // of the part
  std::optional<uint64_t> size = std::nullopt;  // of the part; nullopt: all of the record
  std::optional<uint64_t> rendered_size = std::nullopt;  // of the file, if it is rendered

  bool operator==(const Contents&) const = default;
};

class Subtrees;

struct Dentry {
  std::string name;  // as the kernel requires: no NUL, no '/', 1 to 255 bytes
  Ino ino = 0;
};

class Tree {
 public:
  virtual ~Tree() = default;
  Tree() = default;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Returns nullopt for any `ino` that does not exist.
  [[nodiscard]] virtual std::optional<Inode> inode(Ino ino) const = 0;

  // The same for each inode, in less time. Throws std::bad_optional_access if one does not exist.
  [[nodiscard]] virtual std::vector<Inode> inodes(std::span<const Ino> inos) const;

  // Returns nullopt if `ino` is not a file.
  [[nodiscard]] virtual std::optional<Contents> contents(Ino ino) const;

  // Fills `to` with bytes of a rendered file from `offset` on; they must exist. `part` is the
  // file's part of the record. Takes nearly as long as rendering all of it. Throws FormatError if
  // the part is not the one that the tree was made from.
  virtual void render(Ino ino, std::span<const std::byte> part, uint64_t offset,
                      std::span<std::byte> to) const;

  // Returns which shard `ino` is from, if several make one tree: it has that file's time.
  [[nodiscard]] virtual size_t shard_of(Ino) const { return 0; }

  // Returns nullptr if no record holds a part of the tree.
  [[nodiscard]] virtual const Subtrees* subtrees() const { return nullptr; }

  // Returns 0 if there is no entry of that name, or if `parent` is not a directory.
  [[nodiscard]] virtual Ino lookup(Ino parent, std::string_view name) const = 0;

  // Returns up to `limit` entries of `directory` from position `start` (0-based, in listing order,
  // which is the byte order of the names). Empty at the end.
  [[nodiscard]] virtual std::vector<Dentry> list(Ino directory, uint64_t start,
                                                 uint64_t limit) const = 0;

  // The same for subdirectories only.
  [[nodiscard]] virtual std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                           uint64_t limit) const = 0;

  // Returns a symbolic link's target: 1 to 4095 bytes, no NUL. "" for any other inode.
  [[nodiscard]] virtual std::string target(Ino) const { return {}; }

  // Returns the name of `ino` in its parent; "" for the root.
  [[nodiscard]] virtual std::string name(Ino ino) const = 0;

  // Returns the inode of record `record`, or 0: for messages that name a path.
  [[nodiscard]] virtual Ino file_of(uint64_t record) const = 0;

  [[nodiscard]] virtual uint64_t file_count() const = 0;
  [[nodiscard]] virtual uint64_t directory_count() const = 0;  // includes the root
  [[nodiscard]] virtual uint64_t link_count() const { return 0; }
  [[nodiscard]] uint64_t inode_count() const {
    return file_count() + directory_count() + link_count();
  }
  // Returns the size of the tables of a tree in memory (memory_tree.h); 0 for other trees.
  [[nodiscard]] virtual uint64_t memory_bytes() const { return 0; }

  // Returns e.g. "a/b/c.png", for messages and listings; "" for the root.
  [[nodiscard]] std::string path(Ino ino) const;

  // Returns a directory more than 1,024 directories below `top`, or 0. No writer makes one, and it
  // must not be walked. Skips damaged directories. Takes a fraction of the time of walking all
  // directories.
  [[nodiscard]] Ino find_too_deep(Ino top) const;
};

}  // namespace ffrfs
