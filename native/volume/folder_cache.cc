#include "volume/folder_cache.h"

#include <string>
#include <utility>

namespace ffrfs {

struct FolderCache::HeldFolder : Held {
  HeldFolder(Reservation reserved, FolderPtr made)
      : Held(std::move(reserved)), folder(std::move(made)) {}
  const FolderPtr folder;

  [[nodiscard]] static FolderPtr of(const HeldPtr& held) {
    return held ? std::static_pointer_cast<HeldFolder>(held)->folder : nullptr;
  }
};

FolderCache::FolderCache(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
                         const ExampleOptions& options)
    : shards_(shards), tree_(tree), reads_(reads), options_(options) {}

FolderPtr FolderCache::find(uint64_t record) {
  return HeldFolder::of(reads_.units().table().find(key_of(record)).held);
}

HeldPtr FolderCache::hold(const FolderPtr& folder) {
  if (!folder) return nullptr;
  return std::make_shared<HeldFolder>(
      reads_.fetcher().budget().reserve(Account::kMetadata, folder->memory_bytes()), folder);
}

FolderPtr FolderCache::get(uint64_t record, Done done) {
  UnitTable::Done waiter = [done = std::move(done)](const HeldPtr& held,
                                                    const std::exception_ptr& error) {
    done(HeldFolder::of(held), error);
  };
  HeldPtr held;
  switch (reads_.units().table().join(key_of(record), std::move(waiter), held)) {
    case UnitTable::Join::kHeld:
      return HeldFolder::of(held);
    case UnitTable::Join::kWaits:
      return nullptr;
    case UnitTable::Join::kFirst:
      break;
  }
  FolderPtr folder;
  std::exception_ptr error;
  try {
    folder = make(record);
    if (!folder) return nullptr;
  } catch (...) {
    error = std::current_exception();
  }
  const HeldPtr made = hold(folder);
  auto waiting = reads_.units().table().finish(key_of(record), made);
  // The first of them is our caller's, which has its answer now.
  for (size_t i = 1; i < waiting.size(); ++i) {
    reads_.post([done = std::move(waiting[i]), made, error] { done(made, error); });
  }
  if (error) std::rethrow_exception(error);
  return folder;
}

// nullptr: it is made later, and all who wait for it get it then.
FolderPtr FolderCache::make(uint64_t record) {
  const Extent extent = shards_.extent(record);
  std::string name = tree_.name(ExampleTree::folder_ino(record));
  if (extent.size > reads_.record_limit_bytes()) {
    return ExampleFolder::make_opaque(extent.size, record, std::move(name));
  }
  auto made = std::make_shared<FolderPtr>();
  // Perhaps on another thread, and when we are gone: it refers to nothing of ours.
  auto use = [made, record, name = std::move(name),
              options = options_](std::span<const std::byte> bytes) {
    *made = ExampleFolder::make(bytes, record, name, options);
  };
  const bool at_once = reads_.use_record(
      extent, std::move(use), [this, record, made](const std::exception_ptr& error) {
        const HeldPtr held = error ? nullptr : hold(*made);
        for (const auto& done : reads_.units().table().finish(key_of(record), held)) {
          done(held, error);
        }
      });
  return at_once ? *made : nullptr;
}

FolderPtr FolderCache::make_of(uint64_t record, std::span<const std::byte> bytes) {
  if (FolderPtr kept = find(record)) return kept;
  FolderPtr folder = ExampleFolder::make(
      bytes, record, tree_.name(ExampleTree::folder_ino(record)), options_);
  reads_.units().table().keep(key_of(record), hold(folder));
  return folder;
}

}  // namespace ffrfs
