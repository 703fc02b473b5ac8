// What exists: inodes and dentries, read-only.
//
// A tree is immutable once it is opened, so any number of threads may use it
// without a lock, and an inode number is computed, never handed out: the kernel
// may forget or remember one without our knowing.
//
// A tree may stand on bytes that are checked when they are first touched
// (mapped_tree.h): so every question may throw FormatError, ChecksumError or
// StorageError, and the next one be answered.
//
// Not here: bytes, sizes and checksums of records (shard/shard.h; contents() says which record
// holds a file, and an inode has a size only if that is not the record's), owners, and what a
// mount shows where modes and times are not known (volume), FUSE.

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

// What one inode is. Files name their record in the global index space of the
// volume's shards; directories count their entries.
struct Inode {
  InodeKind kind = InodeKind::kFile;
  uint64_t record = 0;  // files only
  // Of a file that is a part of its record (the others have the record's), and of a
  // symbolic link: of its target.
  std::optional<uint64_t> size = std::nullopt;
  uint64_t entry_count = 0;         // directories only; of several trees' as one: at most
  uint64_t subdirectory_count = 0;  // directories only
  Ino parent = kRootIno;            // the root is its own parent
  std::optional<uint16_t> mode = std::nullopt;     // permissions, 0777; nullopt: unknown
  std::optional<int64_t> mtime_ns = std::nullopt;  // since 1970; nullopt: unknown

  bool operator==(const Inode&) const = default;
  [[nodiscard]] bool is_file() const { return kind == InodeKind::kFile; }
  [[nodiscard]] bool is_directory() const { return kind == InodeKind::kDirectory; }
};

// What a file's bytes are: a record, or a part of one, as it is or rendered (Tree::render()).
struct Contents {
  uint64_t record = 0;  // in the global index space
  uint64_t begin = 0;   // of the part
  std::optional<uint64_t> size = std::nullopt;           // of the part; nullopt: all of the record
  std::optional<uint64_t> rendered_size = std::nullopt;  // of the file, if it is rendered

  bool operator==(const Contents&) const = default;
};

class Subtrees;

struct Dentry {
  std::string name;  // bytes as the kernel wants them: no NUL, no '/', 1 to 255
  Ino ino = 0;
};

class Tree {
 public:
  virtual ~Tree() = default;
  Tree() = default;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // nullopt: there is no such inode, whatever `ino` is.
  [[nodiscard]] virtual std::optional<Inode> inode(Ino ino) const = 0;

  // The same of each, in less time. One that does not exist throws std::bad_optional_access.
  [[nodiscard]] virtual std::vector<Inode> inodes(std::span<const Ino> inos) const;

  // nullopt: `ino` is no file.
  [[nodiscard]] virtual std::optional<Contents> contents(Ino ino) const;

  // Bytes of a file that is rendered, from `offset` on, as many as `to` holds; they must be
  // there. `part` is its part of the record. Takes nearly as long as the whole. Throws
  // FormatError if the part is not what it was when the tree was made.
  virtual void render(Ino ino, std::span<const std::byte> part, uint64_t offset,
                      std::span<std::byte> to) const;

  // The shard of which `ino` is, where several make one tree: it has that file's time.
  [[nodiscard]] virtual size_t shard_of(Ino) const { return 0; }

  // nullptr: this is all there is.
  [[nodiscard]] virtual const Subtrees* subtrees() const { return nullptr; }

  // 0: no entry of that name, or `parent` is no directory.
  [[nodiscard]] virtual Ino lookup(Ino parent, std::string_view name) const = 0;

  // Up to `limit` entries of `directory` from position `start` (0-based, in
  // listing order, which is the byte order of the names). Empty at the end.
  [[nodiscard]] virtual std::vector<Dentry> list(Ino directory, uint64_t start,
                                                 uint64_t limit) const = 0;

  // The same of those entries alone that are directories.
  [[nodiscard]] virtual std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                           uint64_t limit) const = 0;

  // Where a symbolic link leads: 1 to 4095 bytes, no NUL. "" of anything else.
  [[nodiscard]] virtual std::string target(Ino) const { return {}; }

  // The name of `ino` in its parent; "" for the root.
  [[nodiscard]] virtual std::string name(Ino ino) const = 0;

  // The inode of record `record`, or 0: for messages that name a path.
  [[nodiscard]] virtual Ino file_of(uint64_t record) const = 0;

  [[nodiscard]] virtual uint64_t file_count() const = 0;
  [[nodiscard]] virtual uint64_t directory_count() const = 0;  // with the root
  [[nodiscard]] virtual uint64_t memory_bytes() const = 0;

  // "a/b/c.png", for messages and listings; "" for the root.
  [[nodiscard]] std::string path(Ino ino) const;

  // A directory that lies more than 1,024 directories below `top`, or 0: what no writer makes,
  // and not to be gone through. Where the index is damaged, it is not looked into. Takes some
  // of the time of going through all directories.
  [[nodiscard]] Ino find_too_deep(Ino top) const;
};

}  // namespace ffrfs
