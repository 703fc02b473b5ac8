#include "entries/entry_list.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "io/error.h"
#include "record/index_layout.h"
#include "tree/name.h"

namespace ffrfs {
namespace {

constexpr uint16_t kPermissions = 0777;
constexpr uint64_t kTargetSizeBits = 12;
constexpr uint64_t kPlaceLimit = (uint64_t{1} << 44) - 1;

// Returns the fault of a name as a phrase; nullptr if the name is valid.
const char* fault_of(std::string_view name) {
  NameDecoder decoder;
  const char* fault = name_fault(name);
  if (fault == nullptr) fault = decoder.utf8(name);
  // The decoder turns a lone surrogate into the byte that it encodes.
  if (fault == nullptr && decoder.name() != name) fault = "a name that is not UTF-8";
  return fault;
}

// Returns the first eight bytes as a number with the same order.
uint64_t sort_key(std::string_view bytes) {
  uint64_t key = 0;
  std::memcpy(&key, bytes.data(), std::min(bytes.size(), sizeof key));
  return __builtin_bswap64(key);
}

size_t common_prefix_size(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

bool EntryList::is_name(std::string_view name) { return fault_of(name) == nullptr; }

EntryList::EntryList() { folders_.push_back({.mode = 0755}); }

EntryList::Entry EntryList::make(uint32_t parent, std::string_view name, uint32_t mode,
                                 int64_t mtime_ns) {
  if (parent >= folder_count()) {
    throw std::invalid_argument("there is no folder " + std::to_string(parent));
  }
  if (const char* fault = fault_of(name)) {
    throw std::invalid_argument(in_quotes(name) + ": " + fault);
  }
  if (uint64_t{folder_count()} + file_count() + link_count() >= kSlotLimit) {
    throw PackError("more than 4294967294 files and directories");
  }
  return {.name_place = names_.add(name) & kPlaceLimit,
          .name_size = static_cast<uint8_t>(name.size()),
          .mode = static_cast<uint16_t>(mode & kPermissions),
          .mtime_ns = mtime_ns,
          .parent = parent};
}

uint32_t EntryList::add_folder(uint32_t parent, std::string_view name, uint32_t mode,
                               int64_t mtime_ns) {
  Entry entry = make(parent, name, mode, mtime_ns);
  entry.detail = folders_[parent].detail + 1;
  if (entry.detail > kDepthLimit) {
    throw PackError(path(entry),
                    "deeper than " + std::to_string(kDepthLimit) + " directories; exclude it");
  }
  folders_.push_back(entry);
  keep(entry);
  return folder_count() - 1;
}

uint32_t EntryList::add_file(uint32_t parent, std::string_view name, uint64_t size, uint32_t mode,
                             int64_t mtime_ns) {
  Entry entry = make(parent, name, mode, mtime_ns);
  if (__builtin_add_overflow(byte_count_, size, &byte_count_)) {
    throw PackError(path(entry), "more bytes than a file can hold");
  }
  entry.value = size;
  files_.push_back(entry);
  keep(entry);
  return file_count() - 1;
}

void EntryList::add_link(uint32_t parent, std::string_view name, std::string_view target,
                         int64_t mtime_ns) {
  if (target.empty() || target.size() > kTargetSizeLimit ||
      target.find('\0') != std::string_view::npos) {
    throw std::invalid_argument(in_quotes(name) + ": a link leads to 1 to 4095 bytes without NUL");
  }
  Entry entry = make(parent, name, kPermissions, mtime_ns);
  entry.value = names_.add(target) << kTargetSizeBits | target.size();
  links_.push_back(entry);
  keep(entry);
}

void EntryList::drop_folder(uint32_t folder) {
  if (folder == kRoot || folder != folder_count() - 1 || folders_[folder].value > 0) {
    throw std::invalid_argument("folder " + std::to_string(folder) +
                                " is not the last one, or not empty");
  }
  --folders_[folders_[folder].parent].value;
  folders_.pop_back();
  undo();
}

void EntryList::describe_folder(uint32_t folder, uint32_t mode, int64_t mtime_ns) {
  if (folder >= folder_count()) {
    throw std::invalid_argument("there is no folder " + std::to_string(folder));
  }
  folders_[folder].mode = static_cast<uint16_t>(mode & kPermissions);
  folders_[folder].mtime_ns = mtime_ns;
}

void EntryList::share(uint32_t file, uint32_t original) {
  if (file >= file_count() || original >= file_count() || file == original) {
    throw std::invalid_argument("no files " + std::to_string(file) + " and " +
                                std::to_string(original));
  }
  if (files_[file].value != files_[original].value) {
    throw std::invalid_argument(path(files_[file]) + ": has another size than " +
                                path(files_[original]));
  }
  shared_.emplace_back(file, original);
  numbered_ = false;
}

std::string EntryList::path(const Entry& entry) const {
  size_t size = entry.name_size;
  for (uint32_t above = entry.parent; above != kRoot; above = folders_[above].parent) {
    size += folders_[above].name_size + 1;
  }
  std::string path(size, '/');
  const Entry* step = &entry;
  while (true) {
    size -= step->name_size;
    name(*step).copy(path.data() + size, step->name_size);
    if (size == 0) return path;
    step = &folders_[step->parent];
    --size;  // the slash
  }
}

const EntryList::Entry& EntryList::entry(Node node) const {
  if (node < folder_count()) return folders_[node];
  if (node < first_link()) return files_[node - folder_count()];
  return links_[node - first_link()];
}

std::string_view EntryList::target(const Entry& link) const {
  return names_.view(link.value >> kTargetSizeBits, link.value & kTargetSizeLimit);
}

uint16_t EntryList::shown_mode(const Entry& entry, bool is_folder) const {
  if (!shown_mtime_ns_) return entry.mode;
  return is_folder || (entry.mode & 0111) != 0 ? 0755 : 0644;
}

std::span<const EntryList::Node> EntryList::children(uint32_t folder) const {
  return std::span(children_).subspan(children_begin_[folder],
                                      children_begin_[folder + 1] - children_begin_[folder]);
}

void EntryList::sort() {
  if (sorted_) return;
  group();
  for (uint32_t folder = 0; folder < folder_count(); ++folder) {
    const uint32_t begin = children_begin_[folder];
    sort_folder(std::span(children_).subspan(begin, children_begin_[folder + 1] - begin));
  }
  sorted_ = true;
}

// A counting sort by folder: sizes, then ends; filling from the back turns ends into begins.
void EntryList::group() {
  children_begin_.assign(size_t{folder_count()} + 1, 0);
  children_.resize(node_count() - 1);  // the root has no parent
  for (Node node = 1; node < node_count(); ++node) ++children_begin_[entry(node).parent];
  uint32_t end = 0;
  for (uint32_t& begin : children_begin_) begin = end += begin;
  for (Node node = node_count(); --node > 0;) {
    children_[--children_begin_[entry(node).parent]] = node;
  }
}

void EntryList::sort_folder(std::span<Node> nodes) {
  struct Item {
    uint64_t key;  // of the eight bytes after the common prefix of all names
    Node node;
  };
  if (nodes.size() < 2) return;
  const std::string_view first = name(entry(nodes[0]));
  size_t prefix = first.size();
  for (const Node node : nodes) {
    prefix = std::min(prefix, common_prefix_size(first.substr(0, prefix), name(entry(node))));
  }
  std::vector<Item> items;
  items.reserve(nodes.size());
  for (const Node node : nodes) {
    items.push_back({sort_key(name(entry(node)).substr(prefix)), node});
  }
  const auto before = [this](const Item& a, const Item& b) {
    return a.key != b.key ? a.key < b.key : name(entry(a.node)) < name(entry(b.node));
  };
  if (!std::ranges::is_sorted(items, before)) std::ranges::sort(items, before);
  for (size_t i = 0; i < items.size(); ++i) {
    nodes[i] = items[i].node;
    if (i > 0 && items[i].key == items[i - 1].key &&
        name(entry(nodes[i])) == name(entry(nodes[i - 1]))) {
      throw PackError(path(entry(nodes[i])), "the same name twice in one directory");
    }
  }
}

std::optional<uint32_t> EntryList::find(std::string_view path) const {
  uint32_t folder = kRoot;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view wanted = path.substr(0, slash);
    const auto nodes = children(folder);
    const auto found = std::ranges::lower_bound(nodes, wanted, {},
                                                [this](Node node) { return name(entry(node)); });
    if (found == nodes.end() || name(entry(*found)) != wanted) return std::nullopt;
    if (slash == std::string_view::npos) {
      return is_file(*found) ? std::optional(file_number(*found)) : std::nullopt;
    }
    if (!is_folder(*found)) return std::nullopt;
    folder = *found;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace ffrfs
