#include "tree/example_folder.h"

#include <algorithm>
#include <utility>

#include "io/error.h"
#include "io/little_endian.h"
#include "tfrecord/example.h"
#include "tree/example_content.h"
#include "tree/example_json.h"
#include "tree/example_layout.h"
#include "tree/example_tree.h"
#include "tree/npy.h"

namespace ffrfs {
namespace {

constexpr std::string_view kRecordFile = "record.bin";

// `to` is a .npy file of values of type T. False: the feature does not hold as many.
template <typename T>
bool render_npy(const Feature& feature, std::string_view dtype, std::span<std::byte> to) {
  const std::span<std::byte> values = to.subspan(kNpyHeaderSize);
  write_npy_header(to.first<kNpyHeaderSize>(), dtype, values.size() / sizeof(T));
  size_t end = 0;
  (void)feature.lists().for_each<T>([&](T value) {
    if (end < values.size()) store_le(values, end, value);
    end += sizeof(T);
  });
  return end == values.size();
}

}  // namespace

std::unique_ptr<const ExampleFolder> ExampleFolder::make(std::span<const std::byte> record,
                                                         uint64_t number, std::string name,
                                                         const ExampleOptions& options) {
  if (const auto content = ExampleContent::read(record, kNodeLimit)) {
    ExampleLayout layout(record, options);
    if (layout.add(*content)) return layout.finish(number, std::move(name));
  }
  return make_opaque(record.size(), number, std::move(name));
}

std::unique_ptr<const ExampleFolder> ExampleFolder::make_opaque(uint64_t record_size,
                                                                uint64_t number,
                                                                std::string name) {
  std::unique_ptr<ExampleFolder> folder(new ExampleFolder(number, std::move(name)));
  folder->names_.resize(1 + kRecordFile.size());
  folder->names_[0] = static_cast<char>(kRecordFile.size());
  std::ranges::copy(kRecordFile, folder->names_.begin() + 1);
  folder->nodes_ = {{.is_directory = 1}, {}};
  folder->files_ = {{.size = record_size, .file_size = record_size}};
  folder->directories_ = {{.first = 1, .entry_count = 1}};
  return folder;
}

ExampleFolder::ExampleFolder(uint64_t number, std::string name)
    : TableTree(ExampleTree::folder_ino(number), kRootIno),
      number_(number),
      name_(std::move(name)) {}

void ExampleFolder::describe_file(const Node& node, Inode& inode) const {
  inode.record = number_;
  inode.size = files_[node.target].file_size;
}

std::string ExampleFolder::name(Ino ino) const {
  return ino == ino_of(0) ? name_ : TableTree::name(ino);
}

Ino ExampleFolder::file_of(uint64_t record) const { return record == number_ ? ino_of(0) : 0; }

uint64_t ExampleFolder::memory_bytes() const {
  return sizeof *this + table_bytes() + name_.capacity() + files_.capacity() * sizeof(FileSource);
}

const FileSource& ExampleFolder::source(Ino ino) const {
  const Node* found = node(ino);
  if (found == nullptr || found->is_directory) {
    throw RangeError("inode " + std::to_string(ino) + " is no file");
  }
  return files_[found->target];
}

std::vector<std::byte> ExampleFolder::render(const FileSource& source,
                                             std::span<const std::byte> part) const {
  std::vector<std::byte> file;
  bool is_same = part.size() == source.size;
  switch (source.form) {
    case FileSource::Form::kSlice:
      file.assign(part.begin(), part.end());
      break;
    case FileSource::Form::kInts:
      file.resize(source.file_size);
      is_same = is_same && render_npy<int64_t>(Feature{part}, "<i8", file);
      break;
    case FileSource::Form::kFloats:
      file.resize(source.file_size);
      is_same = is_same && render_npy<float>(Feature{part}, "<f4", file);
      break;
    case FileSource::Form::kJson: {
      const auto content = ExampleContent::read(part, kNodeLimit);
      is_same = is_same && content && example_json_size(*content) == source.file_size;
      if (is_same) file = example_json(*content);
      break;
    }
  }
  if (!is_same) {
    throw FormatError("record " + std::to_string(number_) +
                      ": its bytes are not those that its folder was made of; the file has "
                      "changed: mount it again");
  }
  return file;
}

}  // namespace ffrfs
