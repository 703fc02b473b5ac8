// A pack with an index in its last record, opened and walked as a tree (record/index_map,
// record/ffrecord_shard, tree/mapped_tree): whatever the index says, the tree is bounded and
// whole in itself as far as it shows itself, records lie inside the file, and everything
// else is an error of the kinds that are promised.
//
// The input is the pack; index_mutator.h mends its checksums, but not always.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "index_mutator.h"
#include "io/error.h"
#include "record/ffrecord_shard.h"
#include "tree/mapped_tree.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

// True: `act` came to its end. What else is thrown ends the process.
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

void check_name(const std::string& name, const std::string& before) {
  require(!name.empty() && name.size() <= 255, "a name of 1 to 255 bytes");
  require(name.find_first_of(std::string("/\0", 2)) == std::string::npos,
          "a name without / and NUL");
  require(name != "." && name != "..", "a name that names something");
  require(before < name, "names in order, none twice");
}

class Walk {
 public:
  Walk(const FfrecordShard& shard, const MappedTree& tree)
      : shard_(shard), tree_(tree), slot_count_(shard.index()->count(Section::kInodes)) {}

  void all() {
    std::vector<Ino> folders{kRootIno};
    for (size_t i = 0; i < folders.size(); ++i) {
      (void)holds([&] { folder(folders[i], folders); });
      require(shown_.size() < slot_count_, "no more entries than slots");
    }
    // What no folder shows can be asked for all the same.
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
  void folder(Ino ino, std::vector<Ino>& folders) {
    std::vector<Dentry> entries;
    std::string before;
    // In pieces, as an engine asks.
    while (true) {
      const auto piece = tree_.list(ino, entries.size(), 5);
      if (piece.empty()) break;
      require(piece.size() <= 5, "no more than was asked for");
      for (const Dentry& entry : piece) {
        check_name(entry.name, before);
        before = entry.name;
        entries.push_back(entry);
      }
      require(entries.size() < slot_count_, "a listing ends");
    }
    std::vector<Ino> inner;
    for (const Dentry& entry : entries) {
      require(shown_.insert(entry.ino).second, "an inode stands in one place");
      require(tree_.lookup(ino, entry.name) == entry.ino, "a lookup finds what a listing shows");
      (void)holds([&] {
        const Inode inode = *tree_.inode(entry.ino);
        require(inode.parent == ino, "an entry has its folder for a parent");
        if (inode.is_directory()) inner.push_back(entry.ino);
      });
    }
    folders.insert(folders.end(), inner.begin(), inner.end());
    (void)holds([&] { check_subdirectories(ino, inner); });
    (void)tree_.lookup(ino, "absent");
    (void)tree_.lookup(ino, std::string(300, 'n'));
  }

  void check_subdirectories(Ino ino, const std::vector<Ino>& inner) {
    for (const Dentry& entry : tree_.subdirectories(ino, 0, UINT64_MAX)) {
      // One whose inode is damaged is in neither.
      const bool is_shown = std::ranges::find(inner, entry.ino) != inner.end();
      require(is_shown || !holds([&] { (void)tree_.inode(entry.ino); }),
              "a subfolder is listed as an entry");
    }
  }

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
    if (ino != kRootIno) check_name(name, "");
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
  std::set<Ino> shown_;
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
