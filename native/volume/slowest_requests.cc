#include "volume/slowest_requests.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "io/crc.h"

namespace ffrfs {
namespace {

constexpr std::string_view kCut = "...";

}  // namespace

SlowestRequests::SlowestRequests(CounterPage& page, FindPath find_path)
    : find_path_(std::move(find_path)) {
  for (size_t i = 0; i < kCount; ++i) {
    slots_[i].row = page.row("slowest." + std::to_string(i), kRowCount);
  }
}

uint64_t SlowestRequests::now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void SlowestRequests::remember(RequestKind kind, Ino ino, uint64_t elapsed_ns,
                               uint64_t now_ns) noexcept {
  const std::lock_guard lock(mutex_);
  Slot* const slot = place_for(ino, elapsed_ns, now_ns);
  if (slot == nullptr) return;
  if (slot->ino != ino) slot->path.clear();
  slot->ended_ns = now_ns;
  slot->elapsed_ns = elapsed_ns;
  slot->kind = kind;
  slot->ino = ino;
  publish(*slot);
  if (slot->path.empty()) start_naming();
}

// Returns the row of the same inode; otherwise an empty row, one that is too old, or that of the
// least slow request. Returns nullptr if all of them are slower.
SlowestRequests::Slot* SlowestRequests::place_for(Ino ino, uint64_t elapsed_ns, uint64_t now_ns) {
  const auto rank = [now_ns](const Slot& slot) {
    const bool is_fresh = slot.ended_ns != 0 && now_ns - slot.ended_ns < kKeptNs;
    return is_fresh ? slot.elapsed_ns : 0;
  };
  auto place = std::ranges::find(slots_, ino, &Slot::ino);
  if (place == slots_.end()) place = std::ranges::min_element(slots_, {}, rank);
  return rank(*place) < elapsed_ns ? &*place : nullptr;
}

void SlowestRequests::start_naming() {
  if (is_naming_) return;
  try {
    naming_.submit([this] { name_all(); });
    is_naming_ = true;
  } catch (const std::exception&) {
    // Out of memory or threads: shown by inode until another request is remembered.
  }
}

void SlowestRequests::name_all() {
  const auto is_unnamed = [](const Slot& slot) { return slot.ended_ns != 0 && slot.path.empty(); };
  std::unique_lock lock(mutex_);
  while (true) {
    const auto slot = std::ranges::find_if(slots_, is_unnamed);
    if (slot == slots_.end()) break;
    const Ino ino = slot->ino;
    lock.unlock();
    std::string path = name_of(ino);
    lock.lock();
    if (slot->ino != ino) continue;  // reused for another inode
    slot->path = std::move(path);
    publish(*slot);
  }
  is_naming_ = false;
}

// Returns the path to show, never empty. A long path is cut at its beginning.
std::string SlowestRequests::name_of(Ino ino) const {
  try {
    std::string path = find_path_(ino);
    if (path.empty()) return "/";  // the root
    if (path.size() <= kPathSizeMax) return path;
    return std::string(kCut) + path.substr(path.size() - (kPathSizeMax - kCut.size()));
  } catch (const std::exception&) {
    return "?";  // out of memory
  }
}

void SlowestRequests::publish(const Slot& slot) {
  std::array<uint64_t, kRowCount> values{slot.ended_ns, slot.elapsed_ns,
                                         static_cast<uint64_t>(slot.kind), slot.ino,
                                         slot.path.size()};
  std::memcpy(values.data() + 5, slot.path.data(), slot.path.size());
  values.back() = crc32(std::as_bytes(std::span(values).first<kRowCount - 1>()));
  for (size_t i = 0; i < kRowCount; ++i) {
    slot.row[i].store(values[i], std::memory_order_relaxed);
  }
}

}  // namespace ffrfs
