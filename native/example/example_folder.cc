#include "example/example_folder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "example/example_content.h"
#include "example/example_json.h"
#include "example/example_layout.h"
#include "example/example_tree.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "tfrecord/example.h"

namespace ffrfs {
namespace {

constexpr std::string_view kRecordFile = "record.bin";

// Version 1.0 (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). `dtype` is
// NumPy's name, "<i8" or "<f4"; `count` is the number of values.
void write_npy_header(std::span<std::byte, kNpyHeaderSize> header, std::string_view dtype,
                      uint64_t count) {
  using namespace std::string_literals;
  // Padded with spaces, so that the values begin at a multiple of 64; at most 90 of 128 bytes.
  std::string text = "\x93NUMPY\x01\x00\x00\x00{'descr': '"s;
  text += dtype;
  text += "', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  text.resize(kNpyHeaderSize - 1, ' ');
  text += '\n';
  std::ranges::copy(std::as_bytes(std::span(text)), header.begin());
  store_le(std::span<std::byte>(header), 8, static_cast<uint16_t>(kNpyHeaderSize - 10));
}

// Writes the bytes of `part` of a .npy file of `count` values of type T. Returns the size of the
// whole file.
template <typename T>
uint64_t write_npy(const Feature& feature, std::string_view dtype, uint64_t count, FilePart part) {
  std::array<std::byte, kNpyHeaderSize> header;
  write_npy_header(header, dtype, count);
  part.put(header);
  (void)feature.lists().for_each<T>([&part](T value) {
    std::array<std::byte, sizeof(T)> bytes;
    store_le<T>(bytes, 0, value);
    part.put(bytes);
  });
  return part.position();
}

template <typename T> uint64_t value_count(const Recipe& npy) {
  return (npy.file_size - kNpyHeaderSize) / sizeof(T);
}

}  // namespace

std::unique_ptr<const ExampleFolder> ExampleFolder::make(std::span<const std::byte> record,
                                                         ExamplePlace place,
                                                         const ExampleOptions& options) {
  if (const auto content = ExampleContent::read(record, kNodeLimit)) {
    ExampleLayout layout(record, options);
    if (layout.add(*content)) return layout.finish(std::move(place));
  }
  return make_opaque(record.size(), std::move(place));
}

std::unique_ptr<const ExampleFolder> ExampleFolder::make_opaque(uint64_t record_size,
                                                                ExamplePlace place) {
  std::unique_ptr<ExampleFolder> folder(new ExampleFolder(std::move(place)));
  folder->names_.resize(1 + kRecordFile.size());
  folder->names_[0] = static_cast<char>(kRecordFile.size());
  std::ranges::copy(kRecordFile, folder->names_.begin() + 1);
  folder->nodes_ = {{.is_directory = 1}, {}};
  folder->files_ = {{.size = record_size, .file_size = record_size}};
  folder->directories_ = {{.first = 1, .entry_count = 1}};
  return folder;
}

ExampleFolder::ExampleFolder(ExamplePlace place)
    : MemoryTree(ExampleTree::folder_ino(place.number), place.parent),
      number_(place.number),
      name_(std::move(place.name)) {}

void ExampleFolder::describe_file(const Node& node, Inode& inode) const {
  inode.record = number_;
  inode.size = files_[node.target].file_size;
}

std::string ExampleFolder::name(Ino ino) const {
  return ino == ino_of(0) ? name_ : MemoryTree::name(ino);
}

Ino ExampleFolder::file_of(uint64_t record) const { return record == number_ ? ino_of(0) : 0; }

uint64_t ExampleFolder::memory_bytes() const {
  return sizeof *this + table_bytes() + name_.capacity() + files_.capacity() * sizeof(Recipe);
}

const Recipe* ExampleFolder::recipe(Ino ino) const {
  const Node* found = node(ino);
  return found == nullptr || found->is_directory ? nullptr : &files_[found->target];
}

std::optional<Contents> ExampleFolder::contents(Ino ino) const {
  const Recipe* const found = recipe(ino);
  if (found == nullptr) return std::nullopt;
  Contents contents{.record = number_, .begin = found->begin, .size = found->size};
  if (found->form != Recipe::Form::kSlice) contents.rendered_size = found->file_size;
  return contents;
}

void ExampleFolder::render(Ino ino, std::span<const std::byte> part, uint64_t offset,
                           std::span<std::byte> to) const {
  const Recipe* const found = recipe(ino);
  if (found == nullptr) return Tree::render(ino, part, offset, to);
  if (part.size() == found->size && write(*found, part, {offset, to}) == found->file_size) return;
  throw FormatError("record " + std::to_string(number_) +
                    ": its bytes differ from those when its directory was made; the file has "
                    "changed: mount it again");
}

// Returns the size of the whole file.
uint64_t ExampleFolder::write(const Recipe& recipe, std::span<const std::byte> part, FilePart to) {
  switch (recipe.form) {
    case Recipe::Form::kSlice: to.put(part); return part.size();
    case Recipe::Form::kInts:
      return write_npy<int64_t>(Feature{part}, "<i8", value_count<int64_t>(recipe), to);
    case Recipe::Form::kFloats:
      return write_npy<float>(Feature{part}, "<f4", value_count<float>(recipe), to);
    case Recipe::Form::kJson: {
      const auto content = ExampleContent::read(part, kNodeLimit);
      return content ? write_example_json(*content, to) : 0;
    }
  }
  return 0;
}

}  // namespace ffrfs
