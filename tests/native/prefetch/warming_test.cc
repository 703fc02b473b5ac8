// native/prefetch: which records are at and below a file or directory.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "prefetch/warming.h"
#include "tree/tree_builder.h"

using namespace ffrfs;

TEST_CASE("the records at and below an inode") {
  TreeBuilder builder("packed.ffr", 4);
  const auto root = builder.add_directory();
  const auto folder = builder.add_directory();
  builder.place_file(folder, builder.add_name("a"), 2);
  builder.place_file(folder, builder.add_name("b"), 0);
  builder.place_directory(root, builder.add_name("d"), folder);
  builder.place_file(root, builder.add_name("e"), 1);
  builder.place_file(root, builder.add_name("f"), 2);  // as d/a
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
