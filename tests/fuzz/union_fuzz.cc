// Two trees as one (tree/union_tree), each from an index that may lie: a tree that ends,
// shows no name twice and finds what it lists; or an error of the kinds that are promised.
//
// The input is a pack as index_fuzz.cc has it. It is united with itself: so every path is in
// both parts, and the lies meet each other.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "index_mutator.h"
#include "io/error.h"
#include "record/ffrecord_shard.h"
#include "tree/mapped_tree.h"
#include "union/union_tree.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

void check_folder(const UnionTree& tree, Ino folder, uint64_t limit, std::vector<Ino>& folders) {
  std::vector<Dentry> entries;
  while (true) {
    const auto piece = tree.list(folder, entries.size(), 5);
    if (piece.empty()) break;
    for (const Dentry& entry : piece) {
      require(entries.empty() || entries.back().name < entry.name, "names in order, none twice");
      entries.push_back(entry);
    }
    require(entries.size() <= limit, "a listing ends");
  }
  for (const Dentry& entry : entries) {
    require(tree.lookup(folder, entry.name) == entry.ino, "a lookup finds what a listing shows");
    try {
      const auto inode = tree.inode(entry.ino);
      require(inode.has_value(), "an entry has an inode");
      (void)tree.target(entry.ino);
      (void)tree.name(entry.ino);
      if (inode->is_directory()) folders.push_back(entry.ino);
    } catch (const FormatError&) {
    }
  }
  (void)tree.subdirectories(folder, 0, UINT64_MAX);
  (void)tree.lookup(folder, "absent");
  // From the middle, which nobody has come to step by step.
  (void)tree.list(folder, entries.size() / 2, 3);
}

void walk(const UnionTree& tree, uint64_t slot_count) {
  std::vector<Ino> folders{kRootIno};
  for (size_t i = 0; i < folders.size(); ++i) {
    require(folders.size() <= 2 * slot_count, "a tree ends");
    try {
      check_folder(tree, folders[i], 2 * slot_count, folders);
    } catch (const FormatError&) {
    }
  }
  for (uint64_t part = 0; part < 3; ++part) {
    for (Ino own = 0; own < slot_count + 2; ++own) {
      try {
        (void)tree.inode(part << 40 | own);
        (void)tree.path(part << 40 | own);
      } catch (const FormatError&) {
      }
    }
  }
}

UnionPart part_of(const FfrecordShard& shard, uint64_t number) {
  return {.tree = std::make_unique<MappedTree>(*shard.index()),
          .first_record = number * shard.count(),
          .pack = shard.file().path(),
          .set = shard.index()->set()};
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  fuzz::IndexMutator mutator(std::as_writable_bytes(std::span(data, size)), seed);
  if (!mutator.find_index()) return LLVMFuzzerMutate(data, size, max_size);
  mutator.mutate();
  mutator.mend();
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::InputFile file;
  file.write(std::as_bytes(std::span(data, size)));
  try {
    const FfrecordShard shard(file.path(), IndexUse::kIfSound);
    if (shard.index() == nullptr) return 0;
    std::vector<UnionPart> parts;
    for (uint64_t number = 0; number < 2; ++number) parts.push_back(part_of(shard, number));
    const uint64_t slot_count = shard.index()->count(Section::kInodes);
    walk(UnionTree(std::move(parts), size % 2 == 0 ? OnConflict::kFirst : OnConflict::kLast),
         slot_count);
  } catch (const FormatError&) {
  } catch (const ChecksumError&) {
  }
  return 0;
}
