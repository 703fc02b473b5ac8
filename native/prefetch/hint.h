// A record that a client has announced to read.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "tree/tree.h"

namespace ffrfs {

struct Hint {
  uint64_t record = 0;  // among all shards
  Ino ino = 0;          // the file; 0: none, or one in the record's own directory
  bool is_of_all = false;  // that file shows the whole record (record.bin)
};

// Stores a record's bytes in the kernel's page cache, as that file. Returns false if the kernel
// does not know the inode. Called on any thread, without a lock; must not throw.
using PushRecord = std::function<bool(const Hint& hint, std::span<const std::byte> record)>;

// Resolves a client's text: "/a/b.jpg", from the root of the tree, or a record number. Returns
// nullopt if there is no such file. Names inside a record's directory are not looked up.
[[nodiscard]] std::optional<Hint> find_hint(const Tree& tree, uint64_t record_count,
                                            std::string_view text);

}  // namespace ffrfs
