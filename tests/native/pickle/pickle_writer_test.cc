// write_pickle: the safe parser reads its output again. tests/folder/test_index.py tests that the
// bytes are those of CPython.

#include "pickle/pickle_writer.h"

#include <doctest/doctest.h>

#include <string>

#include "entry_lists.h"
#include "pickle/pickle_index.h"
#include "pickles.h"
#include "tree/pickle_tree_entries.h"

using namespace ffrfs;
using namespace ffrfs::test;

TEST_CASE("a written pickle reads back as the same tree, without links") {
  EntryList list = small_list();
  list.share(list.add_file(0, "also a", 4, kMode, 0), 2);
  list.number_by_path();
  const Bytes pickle = pickle_of(all_of(list));
  Pieces source(pickle, 7);
  const auto tree = read_pickle_index(source, list.record_count() + 1, "x");
  CHECK(tree->file_count() == 4);
  CHECK(tree->directory_count() == 3);
  const Ino d = tree->lookup(kRootIno, "d");
  CHECK(tree->inode(tree->lookup(d, "b"))->record == 1);
  CHECK(tree->inode(tree->lookup(d, "e"))->is_directory());
  CHECK(tree->lookup(d, "l") == 0);
  CHECK(tree->inode(tree->lookup(kRootIno, "a"))->record == 0);
  CHECK(tree->inode(tree->lookup(kRootIno, "also a"))->record == 0);
}

TEST_CASE("a tree that was read is written as the same bytes") {
  EntryList list;
  for (int i = 0; i < 3000; ++i) {
    const uint32_t folder = list.add_folder(0, std::to_string(i), 0755, 0);
    for (int k = 0; k < i % 4; ++k) list.add_file(folder, std::to_string(k), 0, kMode, 0);
  }
  list.number_by_path();
  const Bytes pickle = pickle_of(all_of(list));
  Pieces source(pickle, 1000);
  const auto tree = read_pickle_index(source, list.record_count() + 1, "x");
  const bool same = pickle_of(PickleTreeEntries(*tree)) == pickle;
  CHECK(same);
}
