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
  const auto tree = builder.finish();
  CHECK(records_below(*tree, 4, kRootIno) == std::vector<bool>{true, true, true, false});
  const Ino inner = tree->lookup(kRootIno, "d");
  CHECK(records_below(*tree, 4, inner) == std::vector<bool>{true, false, true, false});
  CHECK(records_below(*tree, 4, tree->lookup(inner, "a")) ==
        std::vector<bool>{false, false, true, false});
  CHECK(std::ranges::count(records_below(*tree, 4, 12345), true) == 0);
}
