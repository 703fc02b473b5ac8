// native/tree/pickle_index: any bytes give a tree that is whole in itself, or FormatError,
// in memory that the bytes themselves account for (run.py sets the limit).

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "io/error.h"
#include "pickle/pickle_index.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

constexpr uint64_t kRecordCount = 1000;

// Small pieces, of a size that the input decides, each at a place of its own.
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

void check_entry(const Tree& tree, Ino folder, const Dentry& entry, const std::string& before) {
  require(!entry.name.empty() && entry.name.size() <= 255, "a name of 1 to 255 bytes");
  require(entry.name.find('/') == std::string::npos, "a name without a slash");
  require(entry.name.find('\0') == std::string::npos, "a name without a NUL");
  require(entry.name != "." && entry.name != "..", "a name that names something");
  require(before < entry.name, "names in order");
  require(tree.lookup(folder, entry.name) == entry.ino, "a lookup finds what a listing shows");
  require(tree.name(entry.ino) == entry.name, "an inode has the name of its entry");
  const auto inode = tree.inode(entry.ino);
  require(inode && inode->parent == folder, "an entry has its folder for a parent");
}

void walk(const Tree& tree) {
  std::vector<Ino> folders{kRootIno};
  uint64_t entry_count = 0;
  for (size_t i = 0; i < folders.size(); ++i) {
    std::string before;
    for (const Dentry& entry : tree.list(folders[i], 0, UINT64_MAX)) {
      check_entry(tree, folders[i], entry, before);
      before = entry.name;
      ++entry_count;
      const Inode inode = *tree.inode(entry.ino);
      if (inode.is_directory()) {
        folders.push_back(entry.ino);
      } else {
        require(inode.record < kRecordCount - 1, "a file's record is none of the index");
        require(tree.file_of(inode.record) != 0, "a record that is shown has a file");
      }
    }
  }
  require(entry_count + 1 == tree.file_count() + tree.directory_count(), "every entry is listed");
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
