// The directory of one record that is a tf.train.Example or SequenceExample: a file for each
// feature, example.json and record.bin. For any other record, or one with too many nodes, it has
// only record.bin.
//
// The tables are those of MemoryTree; slot 0 is the directory itself, and a file's target is its
// index in `files`. Holds names and positions, never the record's bytes. Immutable, and always the
// same for the same bytes: so it may be dropped and made again while the kernel knows its inodes.
// ShardSet::keep_checksums() ensures that the bytes are the same.
//
// Made by ExampleLayout (example_layout.h).
// Not here: the root, and a record's place in it (example_tree.h); reading and verifying (volume).

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tree/file_part.h"
#include "tree/memory_tree.h"

namespace ffrfs {

// Of a one-dimensional array as NumPy's .npy file; then come the values, little-endian.
inline constexpr size_t kNpyHeaderSize = 128;

// How a file is made from its record. A rendered file may be larger than its part: up to 8 times
// for .npy, about 6 times for example.json.
struct Recipe {
  enum class Form : uint8_t {
    kSlice,  // the part as it is
    kInts,  // .npy of the int64 values of a feature
    kFloats,  // .npy of the float values of a feature
    kJson,  // example.json, of the whole record
  };
  Form form = Form::kSlice;
  uint64_t begin = 0;  // of the part of the record
  uint64_t size = 0;  // of the part
  uint64_t file_size = 0;  // of the file; a slice has the part's size
};

struct ExampleOptions {
  bool extensions = true;  // names end with the content's type: .jpg, .npy
};

// A record's directory in the tree.
struct ExamplePlace {
  uint64_t number = 0;  // the record's, over all shards
  std::string name;  // of the directory
  Ino parent = kRootIno;
};

class ExampleFolder final : public MemoryTree {
 public:
  // The most files and directories of a record, including its own directory.
  static constexpr uint32_t kNodeLimit = uint32_t{1} << 18;

  // Makes a directory from any bytes. Memory is bounded by the node limit, time by the size of the
  // record.
  [[nodiscard]] static std::unique_ptr<const ExampleFolder> make(std::span<const std::byte> record,
                                                                 ExamplePlace place,
                                                                 const ExampleOptions& options);
  // Makes a directory with only record.bin, for a record that is not parsed.
  [[nodiscard]] static std::unique_ptr<const ExampleFolder> make_opaque(uint64_t record_size,
                                                                        ExamplePlace place);

  // Implements Tree for the record's directory and its content. The directory's parent is not in
  // this tree, so path() begins with the directory's name.
  [[nodiscard]] std::string name(Ino ino) const override;
  // Returns the record's directory.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t file_count() const override { return files_.size(); }
  [[nodiscard]] uint64_t memory_bytes() const override;

  [[nodiscard]] std::optional<Contents> contents(Ino ino) const override;
  void render(Ino ino, std::span<const std::byte> part, uint64_t offset,
              std::span<std::byte> to) const override;

 private:
  friend class ExampleLayout;

  explicit ExampleFolder(ExamplePlace place);

  void describe_file(const Node& node, Inode& inode) const override;
  [[nodiscard]] const Recipe* recipe(Ino ino) const;  // or nullptr
  [[nodiscard]] static uint64_t write(const Recipe& recipe, std::span<const std::byte> part,
                                      FilePart to);

  const uint64_t number_;
  const std::string name_;  // of slot 0
  std::vector<Recipe> files_;
};

}  // namespace ffrfs
