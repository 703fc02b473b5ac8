#include "example/example_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>

#include "example/content_type.h"
#include "example/example_json.h"
#include "example/example_name.h"

namespace ffrfs {
namespace {

// At most "~262143", because the node limit keeps numbers below that.
constexpr size_t kSuffixSizeMax = 7;
static_assert(kFeaturePartSizeMax + kSuffixSizeMax + kExtensionSizeMax <= 255);

// A number as a name.
class Decimal {
 public:
  explicit Decimal(uint64_t number)
      : size_(static_cast<size_t>(
            std::to_chars(text_.data(), text_.data() + text_.size(), number).ptr - text_.data())) {}
  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 20> text_;
  size_t size_;
};

template <typename T> constexpr Recipe::Form kFormOf = Recipe::Form::kInts;
template <> constexpr Recipe::Form kFormOf<float> = Recipe::Form::kFloats;

}  // namespace

bool ExampleLayout::PlaceOrder::operator()(const Place& a, const Place& b) const {
  if (a.parent != b.parent) return a.parent < b.parent;
  return layout->name(a.name) < layout->name(b.name);
}

ExampleLayout::ExampleLayout(std::span<const std::byte> record, const ExampleOptions& options)
    : record_(record), options_(options), shared_(PlaceOrder{this}) {}

bool ExampleLayout::add(const ExampleContent& content) {
  add_file({0, "example.json"}, {},
           recipe(Recipe::Form::kJson, record_, example_json_size(content)));
  add_file({0, "record.bin"}, {}, recipe(Recipe::Form::kSlice, record_, record_.size()));
  for (const auto& [name, feature] : content.features) {
    if (feature.kind() != FeatureKind::kNone) add_feature(open_path(name), feature);
    if (is_full_) return false;
  }
  for (const auto& [name, list] : content.feature_lists) {
    add_list(open_path(name), list);
    if (is_full_) return false;
  }
  return true;
}

std::unique_ptr<const ExampleFolder> ExampleLayout::finish(ExamplePlace place) {
  sort();
  if (tell_apart()) sort();
  std::vector<uint32_t> begins(size_t{directory_count_} + 1);
  for (const Entry& entry : entries_) ++begins[entry.parent + 1];
  for (size_t d = 0; d < directory_count_; ++d) begins[d + 1] += begins[d];

  std::unique_ptr<ExampleFolder> folder(new ExampleFolder(std::move(place)));
  folder->nodes_.reserve(entries_.size() + 1);
  folder->files_.reserve(files_.size());
  folder->directories_.reserve(directory_count_);
  folder->nodes_.push_back({.is_directory = 1});
  folder->directories_.push_back({});
  std::vector<DirectoryId> directories{0};  // breadth-first, as in folder->directories_
  directories.reserve(directory_count_);
  for (uint32_t d = 0; d < directories.size(); ++d) {
    append_entries(d, begins, directories, *folder);
  }
  names_.shrink_to_fit();
  folder->names_ = std::move(names_);
  return folder;
}

ExampleLayout::NameRef ExampleLayout::add_name(std::string_view stem, std::string_view suffix,
                                               std::string_view extension) {
  const size_t begin = names_.size();
  names_.push_back(static_cast<char>(stem.size() + suffix.size() + extension.size()));
  for (const std::string_view part : {stem, suffix, extension}) {
    names_.insert(names_.end(), part.begin(), part.end());
  }
  return static_cast<NameRef>(begin);
}

std::string_view ExampleLayout::name(NameRef ref) const {
  return {names_.data() + ref + 1, static_cast<unsigned char>(names_[ref])};
}

void ExampleLayout::add_file(const Leaf& leaf, std::string_view extension, const Recipe& recipe) {
  is_full_ = is_full_ || entries_.size() + 1 == ExampleFolder::kNodeLimit;
  if (is_full_) return;
  if (!options_.extensions) extension = {};
  entries_.push_back({.parent = leaf.parent,
                      .name = add_name(leaf.stem, {}, extension),
                      .target = static_cast<uint32_t>(files_.size()),
                      .extension_size = static_cast<uint32_t>(extension.size())});
  files_.push_back(recipe);
}

ExampleLayout::DirectoryId ExampleLayout::add_directory(DirectoryId parent, NameRef name) {
  is_full_ = is_full_ || entries_.size() + 1 == ExampleFolder::kNodeLimit;
  if (is_full_) return 0;
  entries_.push_back(
      {.parent = parent, .name = name, .target = directory_count_, .is_directory = true});
  return directory_count_++;
}

ExampleLayout::DirectoryId ExampleLayout::shared_directory(DirectoryId parent,
                                                           std::string_view name) {
  const NameRef ref = add_name(name);
  const auto [place, is_new] = shared_.try_emplace({parent, ref}, 0);
  if (is_new) {
    place->second = add_directory(parent, ref);
  } else {
    names_.resize(ref);
  }
  return place->second;
}

ExampleLayout::Leaf ExampleLayout::open_path(std::string_view feature) {
  spell_feature(feature, path_);
  Leaf leaf{0, path_};
  for (size_t slash = leaf.stem.find('/'); slash != std::string_view::npos;
       slash = leaf.stem.find('/')) {
    leaf.parent = shared_directory(leaf.parent, leaf.stem.substr(0, slash));
    leaf.stem.remove_prefix(slash + 1);
  }
  return leaf;
}

void ExampleLayout::add_feature(const Leaf& leaf, const Feature& feature) {
  switch (feature.kind()) {
    case FeatureKind::kBytes: return add_bytes(leaf, feature);
    case FeatureKind::kFloat: return add_numbers<float>(leaf, feature);
    case FeatureKind::kInt64: return add_numbers<int64_t>(leaf, feature);
    case FeatureKind::kNone: return;
  }
}

template <typename T> void ExampleLayout::add_numbers(const Leaf& leaf, const Feature& feature) {
  const uint64_t file_size = kNpyHeaderSize + feature.value_count() * sizeof(T);
  add_file(leaf, ".npy", recipe(kFormOf<T>, feature.message, file_size));
}

void ExampleLayout::add_bytes(const Leaf& leaf, const Feature& feature) {
  const Feature::Lists values = feature.lists();
  if (feature.value_count() == 1) {
    (void)values.for_each<BytesValue>([&](BytesValue value) { add_value(leaf, value); });
    return;
  }
  const DirectoryId directory = add_directory(leaf.parent, add_name(leaf.stem));
  uint64_t i = 0;
  (void)values.for_each<BytesValue>([&](BytesValue value) {
    if (!is_full_) add_value({directory, Decimal(i++).view()}, value);
  });
}

void ExampleLayout::add_value(const Leaf& leaf, std::span<const std::byte> value) {
  add_file(leaf, options_.extensions ? extension_of(value) : std::string_view(),
           recipe(Recipe::Form::kSlice, value, value.size()));
}

void ExampleLayout::add_list(const Leaf& leaf, const FeatureList& list) {
  const DirectoryId directory = add_directory(leaf.parent, add_name(leaf.stem));
  uint64_t i = 0;
  (void)list.for_each_step([&](const Feature& step) {
    if (!is_full_) add_feature({directory, Decimal(i++).view()}, step);
  });
}

Recipe ExampleLayout::recipe(Recipe::Form form, std::span<const std::byte> part,
                             uint64_t file_size) const {
  const auto begin = static_cast<uint64_t>(part.data() - record_.data());
  return {.form = form, .begin = begin, .size = part.size(), .file_size = file_size};
}

void ExampleLayout::sort() {
  std::ranges::stable_sort(entries_, PlaceOrder{this},
                           [](const Entry& entry) { return Place{entry.parent, entry.name}; });
}

bool ExampleLayout::tell_apart() {
  const auto is_twin = [this](const Entry& a, const Entry& b) {
    return a.parent == b.parent && name(a.name) == name(b.name);
  };
  if (std::ranges::adjacent_find(entries_, is_twin) == entries_.end()) return false;

  Taken taken(PlaceOrder{this});
  for (const Entry& entry : entries_) taken.emplace(Place{entry.parent, entry.name}, 1);
  Entry first = entries_.front();  // the first entry of its name
  for (Entry& entry : std::span(entries_).subspan(1)) {
    if (is_twin(first, entry)) {
      rename(entry, taken);
    } else {
      first = entry;
    }
  }
  return true;
}

void ExampleLayout::rename(Entry& entry, Taken& taken) {
  const std::string whole(name(entry.name));
  const auto extension = std::string_view(whole).substr(whole.size() - entry.extension_size);
  const auto stem = std::string_view(whole).substr(0, whole.size() - extension.size());
  uint32_t& next = taken.find({entry.parent, entry.name})->second;
  for (bool is_new = false; !is_new;) {
    const std::string suffix = "~" + std::to_string(next++);
    const NameRef changed = add_name(stem, suffix, extension);
    is_new = taken.emplace(Place{entry.parent, changed}, 1).second;
    if (is_new) {
      entry.name = changed;
    } else {
      names_.resize(changed);
    }
  }
}

void ExampleLayout::append_entries(uint32_t number, const std::vector<uint32_t>& begins,
                                   std::vector<DirectoryId>& directories,
                                   ExampleFolder& folder) const {
  const DirectoryId id = directories[number];
  folder.begin_entries(number);
  for (uint32_t i = begins[id]; i < begins[id + 1]; ++i) {
    const Entry& entry = entries_[i];
    folder.add_entry(number, {.name = entry.name,
                              .target = static_cast<uint32_t>(folder.files_.size()),
                              .is_directory = entry.is_directory});
    if (entry.is_directory) {
      directories.push_back(entry.target);
    } else {
      folder.files_.push_back(files_[entry.target]);
    }
  }
}

}  // namespace ffrfs
