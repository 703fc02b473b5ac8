// The folder of one record that is a tf.train.Example or SequenceExample: a file for
// each feature, example.json and record.bin. A record that is neither, or makes too many
// nodes, has record.bin alone.
//
// The tables are those of MemoryTree; slot 0 is the folder itself, and a file's target its
// place in `files`. Names and positions are kept, never the record's bytes. Immutable, and
// the same at every making of the same bytes: it may be dropped and made again while the
// kernel knows its inodes. That the bytes are the same: ShardSet::keep_checksums().
//
// Made by ExampleLayout (example_layout.h). Not here: the root, and where a record's
// folder is in it (example_tree.h); reading, and checking what was read (volume).

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tree/file_part.h"
#include "tree/memory_tree.h"

namespace ffrfs {

// How a file comes out of its record. One that is rendered may be a few times as large as
// its part: up to 8 times for .npy, about 6 for example.json.
struct Recipe {
  enum class Form : uint8_t {
    kSlice,   // the part as it is
    kInts,    // .npy of the int64 values of a feature
    kFloats,  // .npy of the float values of a feature
    kJson,    // example.json, of the whole record
  };
  Form form = Form::kSlice;
  uint64_t begin = 0;      // the part of the record that it is made of
  uint64_t size = 0;       // of that part
  uint64_t file_size = 0;  // what the file has; that of a slice is the part's

};

struct ExampleOptions {
  bool extensions = true;  // names end with what the content is: .jpg, .npy
};

// Where a record's folder is in its tree.
struct ExamplePlace {
  uint64_t number = 0;  // the record's, over all shards
  std::string name;     // of the folder
  Ino parent = kRootIno;
};

class ExampleFolder final : public MemoryTree {
 public:
  // Files and folders of a record, its own folder too.
  static constexpr uint32_t kNodeLimit = uint32_t{1} << 18;

  // Any bytes make a folder. Memory is bounded by the node limit, time by the size of the
  // record.
  [[nodiscard]] static std::unique_ptr<const ExampleFolder> make(std::span<const std::byte> record,
                                                                 ExamplePlace place,
                                                                 const ExampleOptions& options);
  // record.bin alone, for a record that is not looked into.
  [[nodiscard]] static std::unique_ptr<const ExampleFolder> make_opaque(uint64_t record_size,
                                                                        ExamplePlace place);

  // All of Tree answers for the record's folder and what is in it. That folder's parent is
  // not here; so path() begins with the folder's name.
  [[nodiscard]] std::string name(Ino ino) const override;
  // The record's folder.
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
