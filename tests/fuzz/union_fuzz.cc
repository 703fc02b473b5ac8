// Two trees as one (tree/union_tree), each from an index that may lie: the tree is finite, shows no
// name twice and finds what it lists; or there is one of the promised kinds of errors.
//
// The input is a pack as in index_fuzz.cc. It is united with itself, so every path is in both
// parts, and their lies meet.

#include <memory>
#include <utility>
#include <vector>

#include "fuzz_input.h"
#include "index_mutator.h"
#include "io/error.h"
#include "record/ffrecord_shard.h"
#include "tree/mapped_tree.h"
#include "tree_walk.h"
#include "union/union_tree.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

void walk(const UnionTree& tree, uint64_t slot_count) {
  // Errors of any other kind end this input, or the process.
  const auto tried = [](const auto& ask) {
    try {
      ask();
      return true;
    } catch (const FormatError&) {
      return false;
    }
  };
  test::TreeWalk shown{tree, 2 * slot_count, require, tried};
  shown.has_hidden = true;
  shown.run([](Ino, const Dentry&) {});
  for (uint64_t part = 0; part < 3; ++part) {
    for (Ino own = 0; own < slot_count + 2; ++own) {
      (void)tried([&] { (void)tree.inode(part << 40 | own); });
      (void)tried([&] { (void)tree.path(part << 40 | own); });
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
