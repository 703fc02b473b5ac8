#include "open/pack.h"

#include <utility>
#include <vector>

namespace ffrfs {
namespace {

ShardSet set_of(std::unique_ptr<const Shard> shard) {
  std::vector<std::unique_ptr<const Shard>> shards;
  shards.push_back(std::move(shard));
  return ShardSet(std::move(shards));
}

}  // namespace

Pack::Pack(std::unique_ptr<const Source> file)
    : shards_(set_of(std::make_unique<FfrecordShard>(std::move(file), IndexUse::kIfSound))) {}

ShardSet open_header(const FfrecordShard& shard) {
  return set_of(std::make_unique<FfrecordShard>(shard.shared_file(), IndexUse::kNone));
}

}  // namespace ffrfs
