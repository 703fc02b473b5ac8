#include "volume/subtree_cache.h"

#include <new>
#include <utility>

namespace ffrfs {

struct SubtreeCache::HeldTree : Held {
  HeldTree(Reservation reserved, TreePtr made) : Held(std::move(reserved)), tree(std::move(made)) {}
  const TreePtr tree;

  [[nodiscard]] static TreePtr of(const HeldPtr& held) {
    return held ? std::static_pointer_cast<HeldTree>(held)->tree : nullptr;
  }
};

SubtreeCache::SubtreeCache(const ShardSet& shards, const Subtrees& subtrees, FileReads& reads)
    : shards_(shards), subtrees_(subtrees), reads_(reads) {}

TreePtr SubtreeCache::find(uint64_t record) {
  return HeldTree::of(reads_.units().table().find(key_of(record)).held);
}

HeldPtr SubtreeCache::hold(const TreePtr& tree) {
  return std::make_shared<HeldTree>(
      reads_.fetcher().budget().reserve(Account::kMetadata, tree->memory_bytes()), tree);
}

TreePtr SubtreeCache::get(uint64_t record, Done done) {
  UnitTable::Done waiter = [done = std::move(done)](const HeldPtr& held,
                                                    const std::exception_ptr& error) {
    done(HeldTree::of(held), error);
  };
  HeldPtr held;
  switch (reads_.units().table().join(key_of(record), std::move(waiter), held)) {
    case UnitTable::Join::kHeld: return HeldTree::of(held);
    case UnitTable::Join::kWaits: return nullptr;
    case UnitTable::Join::kFirst: break;
  }
  TreePtr tree;
  HeldPtr made;
  std::exception_ptr error;
  try {
    tree = make(record);
    if (!tree) return nullptr;
    made = hold(tree);
  } catch (...) {
    error = std::current_exception();
  }
  auto waiting = reads_.units().table().finish(key_of(record), made);
  // The first is the caller's, whose answer is returned.
  for (size_t i = 1; i < waiting.size(); ++i) {
    reads_.units().port().post_answer(waiting[i], made, error);
  }
  if (error) std::rethrow_exception(error);
  return tree;
}

// Returns nullptr if the tree is made later; then all waiters get it.
TreePtr SubtreeCache::make(uint64_t record) {
  const Extent extent = shards_.extent(record);
  if (extent.size > reads_.record_limit_bytes()) {
    return subtrees_.make_opaque(record, extent.size);
  }
  auto made = std::make_shared<TreePtr>();
  // May run on another thread, when this object is gone: uses only the tree, which outlives it.
  auto use = [made, record, &subtrees = subtrees_](std::span<const std::byte> bytes) {
    *made = subtrees.make(record, bytes);
  };
  const bool at_once =
      reads_.use_record(extent, std::move(use), [this, record, made](std::exception_ptr error) {
    HeldPtr held;
    try {
      if (!error) held = hold(*made);
    } catch (...) {  // out of memory: all waiters must get the error
      error = std::current_exception();
    }
    for (const auto& done : reads_.units().table().finish(key_of(record), held)) {
      done(held, error);
    }
  });
  return at_once ? *made : nullptr;
}

TreePtr SubtreeCache::make_of(uint64_t record, std::span<const std::byte> bytes) {
  if (TreePtr kept = find(record)) return kept;
  TreePtr tree = subtrees_.make(record, bytes);
  reads_.units().table().keep(key_of(record), hold(tree));
  return tree;
}

}  // namespace ffrfs
