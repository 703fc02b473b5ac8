#include "open/open_packs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "example/example_tree.h"
#include "io/error.h"
#include "open/open_shards.h"
#include "open/pack.h"
#include "open/set_inventory.h"
#include "record/ffrecord_shard.h"
#include "record/index_map.h"
#include "remote/remote_error.h"
#include "tfrecord/tfrecord_shard.h"

namespace ffrfs {
namespace {

// One FFRecord file and its tree.
struct OpenPack {
  OpenedPacks alone;  // the pack alone; at most one warning
  std::optional<IndexSet> set;
};

OpenPack open_pack(const std::string& path, const OpenSource& open, Counters& counters) {
  Pack pack(open(path));
  const FfrecordShard& shard = pack.shard();
  OpenedTree opened = pack.open_tree(counters);
  const auto set = shard.index() != nullptr ? shard.index()->set() : std::nullopt;
  std::vector<std::string> warnings;
  if (std::string line = shard.warning(); !line.empty()) warnings.push_back(std::move(line));
  return {.alone = {.shards = std::move(pack).take_shards(),
                    .opened = std::move(opened),
                    .warnings = std::move(warnings)},
          .set = set};
}

// Both refuse a file of another kind, even with allow_missing, because it is not missing.
void refuse_other_kinds(const std::string& path, const OpenPack& pack) {
  if (pack.alone.opened.kind == TreeKind::kFolder) return;
  throw FormatError(path, "is a plain FFRecord file; only packs can be shown as one tree; "
                          "name it alone");
}

void refuse_tfrecord(const std::string& path, const OpenSource& open) {
  bool is_one = false;
  try {
    is_one = is_tfrecord(path, open);
  } catch (const StorageError&) {
    return;  // opening the file reports the error
  }
  if (is_one) {
    throw FormatError(path, "is a TFRecord file; only packs can be shown as one tree; "
                            "name it alone, or the directory of all its shards");
  }
}

// Opens several packs, one after the other.
class Opening {
 public:
  Opening(const PackPolicy& policy, Counters& counters) : policy_(policy), counters_(counters) {}

  void add(const std::string& path) {
    refuse_tfrecord(path, policy_.open_source);
    std::optional<OpenPack> pack = try_open(path);
    if (!pack) return;
    refuse_other_kinds(path, *pack);
    OpenedPacks& alone = pack->alone;
    const std::string shown = remote::shown_url(path);
    if (pack->set) sets_.add(shown, *pack->set);
    // If its index was ignored, it is unknown which shard the pack is.
    unknown_count_ += alone.warnings.size();
    std::ranges::move(alone.warnings, std::back_inserter(warnings_));
    parts_.push_back({.tree = std::move(alone.opened.tree),
                      .first_record = record_count_,
                      .pack = shown,
                      .set = pack->set});
    record_count_ += alone.shards.count();
    shards_.push_back(std::move(alone.shards));
  }

  [[nodiscard]] OpenedPacks finish() {
    if (shards_.empty()) std::rethrow_exception(first_error_);
    check_sets();
    OpenedPacks packs{.shards = ShardSet::join(std::move(shards_)),
                      .opened = {nullptr, TreeKind::kFolder},
                      .warnings = std::move(warnings_)};
    if (parts_.size() == 1) {
      packs.opened.tree = std::move(parts_.front().tree);
    } else {
      packs.opened.tree = std::make_unique<UnionTree>(std::move(parts_), policy_.on_conflict);
    }
    return packs;
  }

 private:
  // Returns nullopt if the other packs are shown without it.
  [[nodiscard]] std::optional<OpenPack> try_open(const std::string& path) {
    try {
      return open_pack(path, policy_.open_source, counters_);
    } catch (const std::exception& error) {
      if (!policy_.allow_missing || is_shortage(error)) throw;
      pass_over(error);
    }
    return std::nullopt;
  }

  void pass_over(const std::exception& error) {
    if (!first_error_) first_error_ = std::current_exception();
    warnings_.push_back(std::string(error.what()) + "; the rest is shown without it");
  }

  void check_sets() {
    if (unknown_count_ > 0) return;
    for (std::string& line : sets_.gaps()) {
      if (!policy_.allow_missing) {
        throw FormatError(
            line + "; " + advice() +
            ", or show the rest: --allow-missing of mount, ls, cat, extract and pack");
      }
      warnings_.push_back(std::move(line));
    }
  }

  // Says how to complete the set; ffrfs/packing/places.py makes that directory.
  [[nodiscard]] const char* advice() const {
    const std::string& path = parts_.front().pack;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    if (::access((folder + ".ffrfs-added").c_str(), F_OK) != 0) return "restore what is missing";
    return "a command that adds shards was killed, or goes on: the next ffrfs add, rm or pack "
           "--append to the set completes it";
  }

  const PackPolicy policy_;
  Counters& counters_;
  std::vector<ShardSet> shards_;
  std::vector<UnionPart> parts_;
  uint64_t record_count_ = 0;
  SetInventory sets_;
  size_t unknown_count_ = 0;
  std::vector<std::string> warnings_;
  std::exception_ptr first_error_;
};

// Returns the groups of records that the splits' files hold.
std::vector<ExampleGroup> groups_of(const ShardSet& shards,
                                    const std::vector<RecordSplit>& splits) {
  std::vector<ExampleGroup> groups;
  size_t first = 0;
  for (const RecordSplit& split : splits) {
    if (split.file_count > shards.shard_count() - first) break;
    const size_t end = first + split.file_count;
    const uint64_t end_record = end < shards.shard_count() ? shards.start(end) : shards.count();
    groups.push_back({.name = split.name, .record_count = end_record - shards.start(first)});
    first = end;
  }
  if (groups.size() == splits.size() && first == shards.shard_count()) return groups;
  throw FormatError("the splits do not have as many files as were named");
}

// A worker that replaces another one shows the same files, whatever was added beside them.
void leave_out_added(std::vector<std::string>& paths, const std::vector<std::string>& last_files) {
  for (const std::string& last : last_files) {
    const std::string_view folder = std::string_view(last).substr(0, last.rfind('/') + 1);
    std::erase_if(paths, [&](const std::string& path) {
      return path.starts_with(folder) && path.find('/', folder.size()) == path.npos && path > last;
    });
  }
  if (paths.empty()) throw StorageError(ENOENT, last_files.front(), "cannot open");
}

OpenedPacks open_tfrecords(const std::vector<std::string>& paths, const PackPolicy& policy,
                           Counters& counters) {
  ShardSet shards = open_tfrecord_shards(paths, true, policy.open_source);
  shards.keep_checksums();  // names and positions are computed from the records
  OpenedTree opened = open_tree(shards, nullptr, counters, policy.examples);
  const auto& splits = policy.splits;
  if (splits.size() > 1 || (splits.size() == 1 && !splits.front().name.empty())) {
    const std::vector<ExampleGroup> groups = groups_of(shards, splits);
    opened.tree = std::make_unique<ExampleTree>(groups, policy.examples);
  }
  return {std::move(shards), std::move(opened), {}};
}

}  // namespace

OpenedPacks open_packs(const std::vector<std::string>& paths, const PackPolicy& policy,
                       Counters& counters) {
  if (!policy.splits.empty()) return open_tfrecords(paths, policy, counters);
  const remote::OpenTogether named(paths);  // some are opened twice
  RecordFiles files = find_record_files(paths, policy.open_source);
  leave_out_added(files.paths, policy.last_files);
  const remote::OpenTogether found(files.paths);
  if (files.is_tfrecord) return open_tfrecords(files.paths, policy, counters);
  // A file that is named alone is shown alone, even if it is a shard of a set.
  if (files.paths.size() == 1 && !files.has_folder) {
    return open_pack(files.paths.front(), policy.open_source, counters).alone;
  }
  Opening opening(policy, counters);
  for (const std::string& path : files.paths) opening.add(path);
  return opening.finish();
}

}  // namespace ffrfs
