// Assigns records to the files of an EntryList, and to its links and empty folders.

#include <algorithm>
#include <iterator>

#include "entries/entry_list.h"

namespace ffrfs {

void EntryList::number_by_path() {
  sort();
  give_records(unshared_by_path());
}

void EntryList::number_by_size() {
  sort();
  std::vector<uint32_t> files = unshared_by_path();
  std::ranges::stable_sort(files, {}, [this](uint32_t file) { return files_[file].value; });
  give_records(std::move(files));
}

void EntryList::number_by(std::span<const uint32_t> files) {
  sort();
  std::vector<bool> taken(file_count());
  std::vector<uint32_t> ordered;
  const std::vector<uint32_t> by_path = unshared_by_path();
  ordered.reserve(by_path.size());
  for (const uint32_t file : files) {
    if (file >= file_count()) {
      throw std::invalid_argument("there is no file " + std::to_string(file));
    }
    if (taken[file]) throw std::invalid_argument(path(files_[file]) + ": is named twice");
    taken[file] = true;
  }
  std::vector<bool> has_own(file_count());
  for (const uint32_t file : by_path) has_own[file] = true;
  std::ranges::copy_if(files, std::back_inserter(ordered),
                       [&](uint32_t file) { return has_own[file]; });
  std::ranges::copy_if(by_path, std::back_inserter(ordered),
                       [&](uint32_t file) { return !taken[file]; });
  give_records(std::move(ordered));
}

// Walks the tree in the order of paths: calls enter(folder, its entries) for each folder before its
// entries, and visit(number) for each file.
template <typename Enter, typename Visit> void EntryList::walk(Enter enter, Visit visit) const {
  std::vector<std::span<const Node>> stack{children(kRoot)};  // remaining entries of each folder
  enter(kRoot, stack.back());
  while (!stack.empty()) {
    std::span<const Node>& left = stack.back();
    if (left.empty()) {
      stack.pop_back();
      continue;
    }
    const Node node = left.front();
    left = left.subspan(1);
    if (is_folder(node)) {
      stack.push_back(children(node));
      enter(node, stack.back());
    } else if (is_file(node)) {
      visit(file_number(node));
    }
  }
}

std::vector<uint32_t> EntryList::unshared_by_path() const {
  std::vector<bool> is_shared(file_count());
  for (const auto& [file, original] : shared_) is_shared[file] = true;
  std::vector<uint32_t> files;
  files.reserve(file_count());
  walk([](Node, std::span<const Node>) {}, [&](uint32_t file) {
    if (!is_shared[file]) files.push_back(file);
  });
  return files;
}

void EntryList::give_records(std::vector<uint32_t> files) {
  constexpr uint32_t kNone = UINT32_MAX;
  numbered_ = false;
  records_ = std::move(files);
  for (const auto& [file, original] : shared_) files_[file].detail = kNone;
  for (uint32_t record = 0; record < record_count(); ++record) {
    files_[records_[record]].detail = record;
  }
  for (const auto& [file, original] : shared_) {
    if (files_[original].detail == kNone) {
      throw std::invalid_argument(path(files_[original]) + ": shares a record itself");
    }
  }
  for (const auto& [file, original] : shared_) files_[file].detail = files_[original].detail;
  std::ranges::sort(shared_, {}, [this](const auto& pair) {
    return std::pair(files_[pair.first].detail, pair.first);
  });
  place_rest();
  numbered_ = true;
}

std::vector<uint32_t> EntryList::sharing(uint32_t record) const {
  const auto record_of = [this](const auto& pair) { return files_[pair.first].detail; };
  std::vector<uint32_t> files;
  // equal_range() would not do: clang 14 does not accept its result as a range.
  for (auto pair = std::ranges::lower_bound(shared_, record, {}, record_of);
       pair != shared_.end() && record_of(*pair) == record; ++pair) {
    files.push_back(pair->first);
  }
  return files;
}

void EntryList::place_rest() {
  rest_.clear();
  size_t placed = 0;
  const auto place = [&](uint32_t record) {
    for (; placed < rest_.size(); ++placed) rest_[placed].record = record;
  };
  const auto enter = [&](Node folder, std::span<const Node> content) {
    if (content.empty() && folder != kRoot) rest_.push_back({0, folder});
    for (const Node node : content) {
      if (node >= first_link()) rest_.push_back({0, node});
    }
  };
  walk(enter, [&](uint32_t file) { place(files_[file].detail); });
  place(std::max(record_count(), 1U) - 1);
  std::ranges::stable_sort(rest_, {}, &Rest::record);
  for (const auto& [record, node] : rest_) {
    if (!is_folder(node)) links_[node - first_link()].detail = record;
  }
}

std::span<const EntryList::Rest> EntryList::rest(uint32_t first, uint32_t count) const {
  const auto begin = std::ranges::lower_bound(rest_, first, {}, &Rest::record);
  const auto end = std::ranges::lower_bound(rest_, uint64_t{first} + count, {}, &Rest::record);
  return {begin, end};
}

}  // namespace ffrfs
