#include "volume/subtree_reads.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/error.h"
#include "shard/record_checksum.h"

namespace ffrfs {
namespace {

UnitKey made_key(const Extent& extent, Ino ino) {
  return {extent.shard, extent.record, UnitKind::kMadeFile, ino};
}

}  // namespace

SubtreeReads::SubtreeReads(const ShardSet& shards, const Subtrees& subtrees, FileReads& reads,
                           Counters& counters)
    : shards_(shards),
      subtrees_(subtrees),
      reads_(reads),
      counters_(counters),
      trees_(shards, subtrees, reads) {}

std::optional<Slice> SubtreeReads::read(Ino ino, uint64_t offset, size_t size,
                                        FileReads::Done done) {
  const uint64_t record = subtrees_.record_of(ino).value();
  const Range range{offset, size};
  TreePtr tree = trees_.find(record);
  if (!tree) {  // dropped since the kernel looked the file up
    tree =
        trees_.get(record, [this, ino, range, done](const TreePtr& late, std::exception_ptr error) {
      std::optional<Slice> slice;
      try {
        if (!error) slice = read_in(late, ino, range, done);
      } catch (...) {
        error = std::current_exception();
      }
      if (error || slice) done(slice.value_or(Slice{}), error);
    });
  }
  if (!tree) return std::nullopt;
  return read_in(tree, ino, range, std::move(done));
}

std::optional<Slice> SubtreeReads::read_in(const TreePtr& tree, Ino ino, Range range,
                                           FileReads::Done done) {
  const std::optional<Contents> contents = tree->contents(ino);
  if (!contents) throw RangeError("inode " + std::to_string(ino) + " is no file");
  const uint64_t part_size = contents->size.value();
  const uint64_t file_size = contents->rendered_size.value_or(part_size);
  const uint64_t left = range.offset < file_size ? file_size - range.offset : 0;
  range.size = static_cast<size_t>(std::min<uint64_t>(range.size, left));
  if (contents->rendered_size) return read_made(tree, ino, *contents, range, std::move(done));
  const Extent extent = shards_.extent(contents->record);
  auto slice = reads_.read(extent, contents->begin + range.offset, range.size, std::move(done));
  // E.g. the end of an image: the record has little else, and is in the page cache.
  const bool is_end = range.offset + range.size == part_size;
  if (slice && slice->owner && is_end && part_size >= extent.size / 2 &&
      !slice->owner->is_from_storage) {
    reads_.units().table().demote({extent.shard, extent.record});
  }
  return slice;
}

std::optional<Slice> SubtreeReads::read_made(const TreePtr& tree, Ino ino, const Contents& contents,
                                             Range range, FileReads::Done done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  if (range.size == 0) return Slice{};
  const Extent extent = shards_.extent(contents.record);
  const UnitKey key = made_key(extent, ino);
  if (const auto kept = std::static_pointer_cast<Unit>(reads_.units().table().find(key).held)) {
    counters_.bytes_memory.fetch_add(range.size, std::memory_order_relaxed);
    return take(key, kept, range);
  }
  if (*contents.rendered_size > reads_.fetcher().budget().first_limit(Account::kKept)) {
    throw TooLargeError(shards_.file_of(extent).path(),
                        describe(extent) + ": a file of " +
                            std::to_string(*contents.rendered_size) +
                            " bytes does not fit into memory; raise --cache-mb: File too large",
                        extent.record);
  }
  auto made = std::make_shared<UnitPtr>();
  const bool at_once =
      render(tree, ino, contents, made,
             [this, key, made, range, done = std::move(done)](const std::exception_ptr& error) {
    done(error ? Slice{} : take(key, *made, range), error);
  });
  if (!at_once) return std::nullopt;
  return take(key, *made, range);
}

// Renders the file's bytes. Returns true if they are ready; otherwise calls `done` when they are,
// or with the error.
bool SubtreeReads::render(const TreePtr& tree, Ino ino, const Contents& contents,
                          std::shared_ptr<UnitPtr> made,
                          std::function<void(std::exception_ptr)> done) {
  // May run on another thread, when this object is gone: uses none of its members.
  const auto use = [tree, ino, size = static_cast<size_t>(*contents.rendered_size),
                    made = std::move(made),
                    &fetcher = reads_.fetcher()](std::span<const std::byte> part) {
    UnitPtr unit = fetcher.make_unit(size);
    tree->render(ino, part, 0, unit->buffer.first(size));
    *made = std::move(unit);
  };
  const Extent extent = shards_.extent(contents.record);
  const uint64_t begin = contents.begin;
  const uint64_t size = *contents.size;
  if (extent.size <= kWholeRecordSize || size > kWholeRecordSize) {
    return reads_.use_record(extent, [use, begin, size](std::span<const std::byte> record) {
      use(record.subspan(static_cast<size_t>(begin), static_cast<size_t>(size)));
    }, std::move(done));
  }
  // A small part of a large record: only its chunks are read.
  const auto part = reads_.load(extent, begin, static_cast<size_t>(size),
                                [use, done](const Slice& late, std::exception_ptr error) {
    try {
      if (!error) use(late.bytes);
    } catch (...) {
      error = std::current_exception();
    }
    done(error);
  });
  if (part) use(part->bytes);
  return part.has_value();
}

bool SubtreeReads::push(const Hint& hint, std::span<const std::byte> record,
                        const PushPages& push) {
  if (hint.is_of_all) return false;
  const TreePtr tree = trees_.make_of(hint.record, record);
  bool is_taken = false;
  size_t file_count = 0;
  for (Ino ino = subtrees_.top(hint.record) + 1; file_count < kPushedFilesMax; ++ino) {
    const auto contents = tree->contents(ino);
    if (!contents) {
      if (!tree->inode(ino)) break;
      continue;  // a directory
    }
    const auto size = static_cast<size_t>(contents->size.value());
    const size_t file_size = contents->rendered_size.value_or(size);
    // Skips the two files of the whole record: programs that read them read no others.
    if (size == record.size() || file_size == 0) continue;
    ++file_count;
    const auto part = record.subspan(static_cast<size_t>(contents->begin), size);
    if (contents->rendered_size) {
      std::vector<std::byte> file(file_size);
      tree->render(ino, part, 0, file);
      is_taken |= push(ino, 0, file);
    } else {
      is_taken |= push(ino, 0, part);
    }
  }
  return is_taken;
}

Slice SubtreeReads::take(const UnitKey& key, const UnitPtr& made, Range range) {
  counters_.bytes_served.fetch_add(range.size, std::memory_order_relaxed);
  reads_.units().served(key, made->bytes.size(), made, range.size);
  return {made, made->bytes.subspan(static_cast<size_t>(range.offset), range.size)};
}

}  // namespace ffrfs
