// native/tree/pickle_index: any bytes give a consistent tree or FormatError, in memory in
// proportion to the bytes (run.py sets the limit).

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "io/error.h"
#include "pickle/pickle_index.h"
#include "tree_walk.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

constexpr uint64_t kRecordCount = 1000;

// Gives small pieces, each in memory of its own. The size of the input decides how small.
class Pieces : public ByteSource {
 public:
  explicit Pieces(std::span<const std::byte> bytes)
      : rest_(bytes), piece_size_(1 + bytes.size() % 61) {}

  [[nodiscard]] std::span<const std::byte> next() override {
    const auto piece = rest_.first(std::min(piece_size_, rest_.size()));
    rest_ = rest_.subspan(piece.size());
    piece_ = {piece.begin(), piece.end()};
    return piece_;
  }

 private:
  std::span<const std::byte> rest_;
  const size_t piece_size_;
  std::vector<std::byte> piece_;
};

// A tree from a pickle cannot lie any more: all of it is shown, without an error.
void walk(const Tree& tree) {
  const uint64_t count = tree.file_count() + tree.directory_count();
  const auto tried = [](const auto& ask) {
    ask();
    return true;
  };
  test::TreeWalk shown{tree, count, require, tried};
  shown.run([&](Ino, const Dentry& entry) {
    const Inode inode = tree.inode(entry.ino).value();
    if (inode.is_directory()) return;
    require(inode.record < kRecordCount - 1, "a file's record is none of the index");
    require(tree.file_of(inode.record) != 0, "a record that is shown has a file");
  });
  require(shown.seen.size() == count, "every entry is listed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Pieces source(std::as_bytes(std::span(data, size)));
  try {
    const auto tree = read_pickle_index(source, kRecordCount, "packed.ffr");
    walk(*tree);
  } catch (const FormatError& error) {
    require(std::string(error.what()).starts_with("packed.ffr: "), "an error names the file");
  }
  return 0;
}
