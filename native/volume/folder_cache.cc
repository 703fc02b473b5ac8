#include "volume/folder_cache.h"

#include <string>

namespace ffrfs {

FolderCache::FolderCache(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
                         const ExampleOptions& options, size_t limit_bytes)
    : shards_(shards), tree_(tree), reads_(reads), options_(options), limit_bytes_(limit_bytes) {}

FolderPtr FolderCache::find(uint64_t record) {
  const std::lock_guard lock(mutex_);
  return find_locked(record);
}

FolderPtr FolderCache::find_locked(uint64_t record) {
  const auto entry = entries_.find(record);
  if (entry == entries_.end()) return nullptr;
  order_.splice(order_.begin(), order_, entry->second);
  return entry->second->second;
}

FolderPtr FolderCache::get(uint64_t record, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (FolderPtr kept = find_locked(record)) return kept;
    auto [waiting, first] = making_.try_emplace(record);
    if (!first) {
      waiting->second.push_back(std::move(done));
      return nullptr;
    }
  }
  try {
    return make(record, std::move(done));
  } catch (...) {
    finish(record, nullptr, std::current_exception());
    throw;
  }
}

FolderPtr FolderCache::make(uint64_t record, Done done) {
  const Extent extent = shards_.extent(record);
  std::string name = tree_.name(ExampleTree::folder_ino(record));
  auto made = std::make_shared<FolderPtr>();
  if (extent.size > reads_.record_limit_bytes()) {
    *made = ExampleFolder::make_opaque(extent.size, record, std::move(name));
  } else {
    // Perhaps on another thread, and when we are gone: it refers to nothing of ours.
    auto use = [made, record, name = std::move(name),
                options = options_](std::span<const std::byte> bytes) {
      *made = ExampleFolder::make(bytes, record, name, options);
    };
    const bool at_once = reads_.use_record(
        extent, std::move(use),
        [this, record, made, done = std::move(done)](const std::exception_ptr& error) {
          finish(record, *made, error);
          done(*made, error);
        });
    if (!at_once) return nullptr;
  }
  finish(record, *made, nullptr);
  return *made;
}

FolderPtr FolderCache::make_of(uint64_t record, std::span<const std::byte> bytes) {
  if (FolderPtr kept = find(record)) return kept;
  FolderPtr folder = ExampleFolder::make(
      bytes, record, tree_.name(ExampleTree::folder_ino(record)), options_);
  const std::lock_guard lock(mutex_);
  if (FolderPtr kept = find_locked(record)) return kept;
  keep(record, folder);
  return folder;
}

// Keeps the folder, if there is one, and tells those who wait for it.
void FolderCache::finish(uint64_t record, const FolderPtr& folder,
                         const std::exception_ptr& error) {
  std::vector<Done> waiting;
  {
    const std::lock_guard lock(mutex_);
    auto entry = making_.extract(record);
    waiting = std::move(entry.mapped());
    if (folder) keep(record, folder);
  }
  for (Done& done : waiting) {
    reads_.post([done = std::move(done), folder, error] { done(folder, error); });
  }
}

// With the lock held.
void FolderCache::keep(uint64_t record, const FolderPtr& folder) {
  if (entries_.contains(record)) return;  // somebody has made it ahead of need
  order_.emplace_front(record, folder);
  entries_.emplace(record, order_.begin());
  kept_bytes_ += folder->memory_bytes();
  drop_oldest();
}

void FolderCache::set_limit(size_t limit_bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = limit_bytes;
  drop_oldest();
}

// With the lock held.
void FolderCache::drop_oldest() {
  while (kept_bytes_ > limit_bytes_ && order_.size() > 1) {
    kept_bytes_ -= order_.back().second->memory_bytes();
    entries_.erase(order_.back().first);
    order_.pop_back();
  }
}

}  // namespace ffrfs
