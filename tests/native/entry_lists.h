// Shared by the tests of index writers: lists of entries, and the bytes that are written.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "entries/entry_list.h"
#include "entries/entry_slice.h"
#include "pickle/pickle_writer.h"
#include "scratch.h"

namespace ffrfs::test {

constexpr uint32_t kMode = 0644;
constexpr int64_t kTime = 1'700'000'000'123'456'789;

// a, d/b (5 bytes), d/e/, d/l -> ../a, z
inline EntryList small_list() {
  EntryList list;
  const uint32_t d = list.add_folder(EntryList::kRoot, "d", 0750, 1);
  list.add_file(EntryList::kRoot, "z", 3, 0600, 2);
  list.add_file(d, "b", 5, 0755, 3);
  list.add_folder(d, "e", 0700, 4);
  list.add_file(EntryList::kRoot, "a", 4, kMode, kTime);
  list.add_link(d, "l", "../a", 5);
  list.number_by_path();
  return list;
}

inline EntrySlice all_of(const EntryList& list) { return {list, 0, list.record_count()}; }

inline Bytes pickle_of(const IndexEntries& source) {
  Bytes bytes;
  write_pickle(source, [&bytes](std::span<const std::byte> piece) { bytes += text(piece); });
  return bytes;
}

}  // namespace ffrfs::test
