// A pack with an index in its last record, opened and walked as a tree (record/index_map,
// record/ffrecord_shard, tree/mapped_tree): whatever the index says, the tree is bounded, the part
// of it that is shown is consistent, records lie inside the file, and all else is one of the
// promised kinds of errors.
//
// The input is the pack; most times index_mutator.h corrects its checksums.

#include <string>

#include "fuzz_input.h"
#include "index_mutator.h"
#include "io/error.h"
#include "record/ffrecord_shard.h"
#include "tree/mapped_tree.h"
#include "tree_walk.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

// Return whether `act` ended without an error. Errors of any other kind end the process.
template <typename Act> bool holds(const Act& act) {
  try {
    act();
    return true;
  } catch (const FormatError&) {
  } catch (const ChecksumError&) {
  } catch (const StorageError&) {
  }
  return false;
}

class Walk {
 public:
  Walk(const FfrecordShard& shard, const MappedTree& tree)
      : shard_(shard), tree_(tree), slot_count_(shard.index()->count(Section::kInodes)) {}

  void all() {
    const auto tried = [](const auto& ask) { return holds(ask); };
    test::TreeWalk{tree_, slot_count_, require, tried}.run([](Ino folder, const Dentry& entry) {
      require(entry.ino > folder, "an entry comes after its folder");
    });
    // Inodes that no folder shows can be requested, too.
    for (Ino ino = 0; ino <= slot_count_ + 2; ++ino) {
      (void)holds([&] { ask(ino); });
      (void)holds([&] { (void)tree_.path(ino); });
    }
    (void)holds([&] { require(!tree_.inode(UINT64_MAX), "no inode of that number"); });
    for (uint64_t record = 0; record < shard_.count() + 2; ++record) {
      (void)holds([&] { check_file_of(record); });
      if (record < shard_.count()) (void)holds([&] { check_extent(record); });
    }
    require(tree_.file_count() < slot_count_, "no more files than slots");
  }

 private:
  void ask(Ino ino) {
    const auto inode = tree_.inode(ino);
    require(inode.has_value() == (ino >= kRootIno && ino <= slot_count_), "an inode is a slot");
    if (!inode) return;
    require(ino == kRootIno || inode->parent < ino, "a parent comes before its children");
    require(!inode->is_file() || inode->record < shard_.count() - 1, "a file has a record");
    const std::string target = tree_.target(ino);
    if (inode->kind == InodeKind::kSymlink) {
      require(!target.empty() && target.size() <= 4095, "a target of 1 to 4095 bytes");
      require(target.find('\0') == std::string::npos, "a target without NUL");
      require(inode->size == target.size(), "a link is as large as its target");
    } else {
      require(target.empty(), "only a link leads elsewhere");
    }
    const std::string name = tree_.name(ino);
    if (ino != kRootIno) test::check_name(name, "", require);
  }

  void check_file_of(uint64_t record) {
    const Ino ino = tree_.file_of(record);
    if (ino == 0) return;
    const Inode inode = *tree_.inode(ino);
    require(inode.is_file() && inode.record == record, "a record's file is of that record");
  }

  void check_extent(uint64_t record) {
    const Extent extent = shard_.extent(record);
    const uint64_t file_size = shard_.file().size();
    require(extent.offset >= ffrecord_header_size(shard_.count()), "a record is behind the header");
    require(extent.size <= file_size && extent.offset <= file_size - extent.size,
            "a record lies inside the file");
    const auto chunks = shard_.chunk_checksums(record);
    require(chunks.empty() || chunks.size() == record_chunk_count(extent.size),
            "a checksum for each chunk, or none");
  }

  const FfrecordShard& shard_;
  const MappedTree& tree_;
  const uint64_t slot_count_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  fuzz::IndexMutator mutator(std::as_writable_bytes(std::span(data, size)), seed);
  if (seed % 16 == 0 || !mutator.find_index()) return LLVMFuzzerMutate(data, size, max_size);
  mutator.mutate();
  if (seed % 16 != 1) mutator.mend();
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::InputFile file;
  file.write(std::as_bytes(std::span(data, size)));
  (void)holds([&] {
    const FfrecordShard shard(file.path(), IndexUse::kIfSound);
    require(shard.warning().find('\n') == std::string::npos, "a warning is one line");
    if (shard.index() == nullptr) return;
    const MappedTree tree(*shard.index());
    Walk(shard, tree).all();
  });
  return 0;
}
