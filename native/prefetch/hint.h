// What a reader says that it will read next.

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
  uint64_t record = 0;  // of all shards
  Ino ino = 0;          // the file; 0: in the record's own folder, or none in particular
  bool is_of_all = false;  // then: it is one that shows all of the record (record.bin)
};

// Gives a record's bytes to the kernel's page cache, as that file. False: it does not know the
// inode. Any thread, without a lock; must not throw.
using PushRecord = std::function<bool(const Hint& hint, std::span<const std::byte> record)>;

// As a client says it: "/a/b.jpg", from the root of the tree, or a record's number.
// nullopt: there is no such file. What is inside a record's folder is not looked up.
[[nodiscard]] std::optional<Hint> find_hint(const Tree& tree, uint64_t record_count,
                                            std::string_view text);

}  // namespace ffrfs
