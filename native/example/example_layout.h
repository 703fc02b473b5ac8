// From the features of a record to its ExampleFolder.
//
// Names that collide: of the entries of one folder, in the order in which the features
// make them, the first keeps the name, and the others get "~1", "~2" … behind the stem,
// the first of these that nothing else has. The order: example.json, record.bin, then the
// features in the byte order of their names, those of a sequence's context before its
// feature lists; a folder that a '/' makes comes with the first feature in it.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "example/example_content.h"
#include "example/example_folder.h"

namespace ffrfs {

class ExampleLayout {
 public:
  // `record` must outlive this.
  ExampleLayout(std::span<const std::byte> record, const ExampleOptions& options);

  // False: more nodes than the limit; then there is nothing to finish. Once only.
  [[nodiscard]] bool add(const ExampleContent& content);

  // Once only.
  [[nodiscard]] std::unique_ptr<const ExampleFolder> finish(ExamplePlace place);

 private:
  using NameRef = uint32_t;  // as ExampleFolder::Node::name
  using DirectoryId = uint32_t;

  struct Entry {
    DirectoryId parent = 0;
    NameRef name = 0;
    uint32_t target = 0;          // place in files_, or the directory
    uint32_t extension_size = 0;  // of the name
    bool is_directory = false;
  };

  // The place of a name.
  struct Place {
    DirectoryId parent = 0;
    NameRef name = 0;
  };
  struct PlaceOrder {
    const ExampleLayout* layout;
    bool operator()(const Place& a, const Place& b) const;
  };

  // At most 255 bytes together.
  [[nodiscard]] NameRef add_name(std::string_view stem, std::string_view suffix = {},
                                 std::string_view extension = {});
  [[nodiscard]] std::string_view name(NameRef ref) const;

  // Where a feature is to stand: views of path_, or of a step's number.
  struct Leaf {
    DirectoryId parent = 0;
    std::string_view stem;
  };
  void add_file(const Leaf& leaf, std::string_view extension, const Recipe& recipe);
  [[nodiscard]] DirectoryId add_directory(DirectoryId parent, NameRef name);
  // The folder that a '/' in a feature's name makes, which others may share.
  [[nodiscard]] DirectoryId shared_directory(DirectoryId parent, std::string_view name);
  [[nodiscard]] Leaf open_path(std::string_view feature);

  void add_feature(const Leaf& leaf, const Feature& feature);
  template <typename T>  // int64_t or float
  void add_numbers(const Leaf& leaf, const Feature& feature);
  void add_bytes(const Leaf& leaf, const Feature& feature);
  void add_value(const Leaf& leaf, std::span<const std::byte> value);
  void add_list(const Leaf& leaf, const FeatureList& list);
  [[nodiscard]] Recipe recipe(Recipe::Form form, std::span<const std::byte> part,
                                  uint64_t file_size) const;

  // By the directories, then by the names; those that were added first are before their
  // like.
  void sort();
  // Of sorted entries. Whether any name had to be changed.
  [[nodiscard]] bool tell_apart();
  // Every name that is taken, with the number that its next twin tries first: so that many
  // twins do not each begin at 1. A balanced tree, whose keys cannot be made to collide.
  using Taken = std::map<Place, uint32_t, PlaceOrder>;
  void rename(Entry& entry, Taken& taken);
  void append_entries(uint32_t number, const std::vector<uint32_t>& begins,
                      std::vector<DirectoryId>& directories, ExampleFolder& folder) const;

  const std::span<const std::byte> record_;
  const ExampleOptions options_;
  std::string path_;  // of the feature that is being added
  std::vector<char> names_;
  std::vector<Recipe> files_;
  std::vector<Entry> entries_;
  std::map<Place, DirectoryId, PlaceOrder> shared_;
  uint32_t directory_count_ = 1;  // 0 is the record's folder
  bool is_full_ = false;
};

}  // namespace ffrfs
