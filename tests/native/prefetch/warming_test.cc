// native/prefetch: which records are at and below a file or directory.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "io/error.h"
#include "prefetch/warming.h"
#include "tree/tree_builder.h"

using namespace ffrfs;

namespace {

// A tree whose index is damaged for some inodes.
class Damaged final : public Tree {
 public:
  Damaged(std::unique_ptr<const Tree> sound, std::vector<Ino> bad)
      : sound_(std::move(sound)), bad_(std::move(bad)) {}

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override {
    check(ino);
    return sound_->inode(ino);
  }
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override {
    return sound_->lookup(parent, name);
  }
  [[nodiscard]] std::vector<Dentry> list(Ino ino, uint64_t start, uint64_t limit) const override {
    if (ino != kRootIno) check(ino + 1000);
    return sound_->list(ino, start, limit);
  }
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino ino, uint64_t start,
                                                   uint64_t limit) const override {
    return sound_->subdirectories(ino, start, limit);
  }
  [[nodiscard]] std::string name(Ino ino) const override { return sound_->name(ino); }
  [[nodiscard]] Ino file_of(uint64_t record) const override { return sound_->file_of(record); }
  [[nodiscard]] uint64_t file_count() const override { return sound_->file_count(); }
  [[nodiscard]] uint64_t directory_count() const override { return sound_->directory_count(); }

 private:
  void check(Ino ino) const {
    if (std::ranges::find(bad_, ino) != bad_.end()) throw FormatError("x.ffr", "damaged index");
  }

  const std::unique_ptr<const Tree> sound_;
  const std::vector<Ino> bad_;
};

}  // namespace

TEST_CASE("records_below() gives the records at and below an inode") {
  TreeBuilder builder("packed.ffr", 4);
  const auto root = builder.add_directory();
  const auto folder = builder.add_directory();
  builder.place_file(folder, builder.add_name("a"), 2);
  builder.place_file(folder, builder.add_name("b"), 0);
  builder.place_directory(root, builder.add_name("d"), folder);
  builder.place_file(root, builder.add_name("e"), 1);
  builder.place_file(root, builder.add_name("f"), 2);  // the same record as d/a
  const auto tree = builder.finish();
  const auto part = [&](Ino ino) { return records_below(*tree, 4, ino); };
  const Ino inner = tree->lookup(kRootIno, "d");
  const Ino first = tree->file_of(2);
  const Ino copy = tree->lookup(inner, "a");
  REQUIRE(first == tree->lookup(kRootIno, "f"));
  CHECK(part(kRootIno).records == std::vector<bool>{true, true, true, false});
  CHECK(part(kRootIno).copies == std::vector{WarmedPart::Copy(2, copy)});
  CHECK(part(kRootIno).count(0, 4) == 4);
  CHECK(part(kRootIno).count(2, 3) == 2);
  CHECK(part(inner).records == std::vector<bool>{true, false, false, false});
  CHECK(part(inner).count(0, 4) == 2);
  CHECK(part(first).records == std::vector<bool>{false, false, true, false});
  CHECK(part(copy).count(0, 4) == 1);
  CHECK(part(copy).copies_of(2, 3).size() == 1);
  CHECK(part(12345).count(0, 4) == 0);
}

TEST_CASE("records_below() leaves out only what is damaged in the index") {
  TreeBuilder builder("packed.ffr", 7);
  const auto root = builder.add_directory();
  uint32_t record = 0;
  for (const char* const name : {"d", "e", "f"}) {
    const auto folder = builder.add_directory();
    builder.place_directory(root, builder.add_name(name), folder);
    builder.place_file(folder, builder.add_name("a"), record++);
    builder.place_file(folder, builder.add_name("b"), record++);
  }
  std::unique_ptr<const Tree> tree = builder.finish();
  // Damaged are the inode of a file, and (1000 more) the listing of a directory.
  std::vector<Ino> bad{tree->file_of(4), tree->lookup(kRootIno, "e") + 1000};
  const Damaged damaged(std::move(tree), std::move(bad));
  const WarmedPart part = records_below(damaged, 7, kRootIno);
  CHECK(part.records == std::vector<bool>{true, true, false, false, false, true, false});
}
