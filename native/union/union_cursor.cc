#include "union/union_cursor.h"

#include <algorithm>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

// The entries that a cursor holds, of all parts together: half a megabyte, or four entries of each
// part if there are very many parts.
constexpr uint64_t kHeldMax = 8'192;
constexpr uint64_t kSliceMax = 256;

}  // namespace

UnionCursor::UnionCursor(const UnionParts& parts, std::span<const Ino> directories, Ask ask,
                         std::string_view after)
    : parts_(parts),
      ask_(ask),
      slice_max_(std::clamp(kHeldMax / (directories.size() + 1), kFirstSlice, kSliceMax)),
      sources_(directories.size()),
      name_(after) {
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    sources_[i].directory = directories[i];
    if (!after.empty()) sources_[i].position = position_after(directories[i], after);
    fill(sources_[i]);
    if (!sources_[i].slice.empty()) heap_.push_back(i);
  }
  for (size_t place = heap_.size() / 2; place-- > 0;) sift_down(place);
}

bool UnionCursor::next() {
  inos_.clear();
  if (heap_.empty()) return false;
  if (name_in(heap_[0]) <= name_) {
    throw FormatError(parts_.part_of(sources_[heap_[0]].directory).pack,
                      "bad index: the names of a directory are out of order");
  }
  Source& first = sources_[heap_[0]];
  name_ = std::move(first.slice[first.place].name);
  inos_.push_back(first.slice[first.place].ino);
  advance();
  while (!heap_.empty() && name_in(heap_[0]) == name_) {
    const Source& other = sources_[heap_[0]];
    inos_.push_back(other.slice[other.place].ino);
    advance();
  }
  return true;
}

const std::string& UnionCursor::name_in(uint32_t source) const {
  return sources_[source].slice[sources_[source].place].name;
}

uint64_t UnionCursor::position_after(Ino directory, std::string_view name) const {
  const std::optional<Inode> inode = parts_.inode(directory);
  uint64_t low = 0;
  uint64_t high = inode ? inode->entry_count : 0;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const std::vector<Dentry> found = (parts_.*ask_)(directory, middle, 1);
    if (!found.empty() && found[0].name <= name) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void UnionCursor::fill(Source& source) {
  source.slice = (parts_.*ask_)(source.directory, source.position, source.slice_size);
  source.slice_size = std::min(2 * source.slice_size, slice_max_);
  source.position += source.slice.size();
  source.place = 0;
}

void UnionCursor::advance() {
  Source& source = sources_[heap_[0]];
  if (++source.place == source.slice.size()) fill(source);
  if (source.slice.empty()) {
    heap_[0] = heap_.back();
    heap_.pop_back();
  }
  sift_down(0);
}

void UnionCursor::sift_down(size_t place) {
  // If names are equal, the source that was given first comes first.
  const auto is_before = [this](uint32_t a, uint32_t b) {
    const int order = name_in(a).compare(name_in(b));
    return order != 0 ? order < 0 : a < b;
  };
  while (true) {
    size_t child = 2 * place + 1;
    if (child >= heap_.size()) return;
    if (child + 1 < heap_.size() && is_before(heap_[child + 1], heap_[child])) ++child;
    if (!is_before(heap_[child], heap_[place])) return;
    std::swap(heap_[child], heap_[place]);
    place = child;
  }
}

}  // namespace ffrfs
