// Makes an ExampleFolder from the features of a record.
//
// If names in one directory collide, the first of them, in the order in which they are made, keeps
// the name; the others get "~1", "~2" … after the stem, the first that is free. The order:
// example.json, record.bin, then the features in the byte order of their names, those of a
// sequence's context before its feature lists; a directory that a '/' makes comes with the first
// feature in it.

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
  // `record` must outlive this object.
  ExampleLayout(std::span<const std::byte> record, const ExampleOptions& options);

  // Returns false if there are more nodes than the limit; then finish() must not be called. Once
  // only.
  [[nodiscard]] bool add(const ExampleContent& content);

  // May be called once.
  [[nodiscard]] std::unique_ptr<const ExampleFolder> finish(ExamplePlace place);

 private:
  using NameRef = uint32_t;  // as ExampleFolder::Node::name
  using DirectoryId = uint32_t;

  struct Entry {
    DirectoryId parent = 0;
    NameRef name = 0;
    uint32_t target = 0;  // index in files_, or the directory
    uint32_t extension_size = 0;  // of the name
    bool is_directory = false;
  };

  // A name in a directory.
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

  // Path components of the feature; they point into path_ or into a step's decimal number.
  struct Leaf {
    DirectoryId parent = 0;
    std::string_view stem;
  };
  void add_file(const Leaf& leaf, std::string_view extension, const Recipe& recipe);
  [[nodiscard]] DirectoryId add_directory(DirectoryId parent, NameRef name);
  // Returns the directory for a '/' in a feature's name, which other features may share.
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

  // Sorts by directory, then by name; equal names stay in the order in which they were added.
  void sort();
  // Renames duplicates among sorted entries. Returns whether it changed any name.
  [[nodiscard]] bool tell_apart();
  // All names in use, with the number that the next duplicate tries first, so that many duplicates
  // do not each start at 1. A balanced tree, because hostile names cannot make its keys collide.
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
  uint32_t directory_count_ = 1;  // 0 is the record's directory
  bool is_full_ = false;
};

}  // namespace ffrfs
