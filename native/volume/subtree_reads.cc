#include "volume/example_reads.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/error.h"
#include "shard/verification.h"

namespace ffrfs {
namespace {

UnitKey made_key(const Extent& extent, Ino ino) {
  return {extent.shard, extent.record, UnitKind::kMadeFile, ino};
}

}  // namespace

ExampleReads::ExampleReads(const ShardSet& shards, const ExampleTree& tree, FileReads& reads,
                           Counters& counters, const ExampleOptions& options)
    : shards_(shards),
      reads_(reads),
      counters_(counters),
      folders_(shards, tree, reads, options) {}

std::optional<Slice> ExampleReads::read(Ino ino, uint64_t offset, size_t size,
                                        FileReads::Done done) {
  const uint64_t record = ExampleTree::record_of(ino);
  const Range range{offset, size};
  FolderPtr folder = folders_.find(record);
  if (!folder) {  // dropped since the kernel has looked the file up
    folder = folders_.get(record, [this, ino, range, done](const FolderPtr& late,
                                                           std::exception_ptr error) {
      std::optional<Slice> slice;
      try {
        if (!error) slice = read_in(late, ino, range, done);
      } catch (...) {
        error = std::current_exception();
      }
      if (error || slice) done(slice.value_or(Slice{}), error);
    });
  }
  if (!folder) return std::nullopt;
  return read_in(folder, ino, range, std::move(done));
}

std::optional<Slice> ExampleReads::read_in(const FolderPtr& folder, Ino ino, Range range,
                                           FileReads::Done done) {
  const FileSource& source = folder->source(ino);
  const uint64_t left =
      range.offset < source.file_size ? source.file_size - range.offset : 0;
  range.size = static_cast<size_t>(std::min<uint64_t>(range.size, left));
  if (source.form != FileSource::Form::kSlice) {
    return read_made(folder, ino, range, std::move(done));
  }
  const Extent extent = shards_.extent(ExampleTree::record_of(ino));
  auto slice = reads_.read(extent, source.begin + range.offset, range.size, std::move(done));
  // An image, say, to its end: what else the record holds is little, and at hand.
  const bool is_end = range.offset + range.size == source.size;
  if (slice && slice->owner && is_end && source.size >= extent.size / 2 &&
      !slice->owner->is_from_storage) {
    reads_.units().table().demote({extent.shard, extent.record});
  }
  return slice;
}

std::optional<Slice> ExampleReads::read_made(const FolderPtr& folder, Ino ino, Range range,
                                             FileReads::Done done) {
  counters_.reads.fetch_add(1, std::memory_order_relaxed);
  if (range.size == 0) return Slice{};
  const Extent extent = shards_.extent(ExampleTree::record_of(ino));
  const UnitKey key = made_key(extent, ino);
  if (const auto kept = std::static_pointer_cast<Unit>(reads_.units().table().find(key).held)) {
    counters_.bytes_memory.fetch_add(kept->bytes.size(), std::memory_order_relaxed);
    return take(key, kept, range);
  }
  const FileSource& source = folder->source(ino);
  if (source.file_size > reads_.fetcher().budget().first_limit(Account::kKept)) {
    throw TooLargeError(shards_.file_of(extent).path(),
                        describe(extent) + ": a file of " + std::to_string(source.file_size) +
                            " bytes has to be held to be made; raise --cache-mb: File too large",
                        extent.record);
  }
  auto made = std::make_shared<UnitPtr>();
  const bool at_once = render(folder, source, extent, made,
                              [this, key, made, range, done = std::move(done)](
                                  const std::exception_ptr& error) {
                                done(error ? Slice{} : take(key, *made, range), error);
                              });
  if (!at_once) return std::nullopt;
  return take(key, *made, range);
}

// Makes the file's bytes. True: they are there. False: `done` is called when they are, or
// with what went wrong.
bool ExampleReads::render(const FolderPtr& folder, const FileSource& source,
                          const Extent& extent, std::shared_ptr<UnitPtr> made,
                          std::function<void(std::exception_ptr)> done) {
  // Perhaps on another thread, and when we are gone: it refers to nothing of ours.
  const auto use = [folder, source, made = std::move(made),
                    &fetcher = reads_.fetcher()](std::span<const std::byte> part) {
    const std::vector<std::byte> bytes = folder->render(source, part);
    *made = fetcher.make_unit(bytes.size());
    if (!bytes.empty()) std::memcpy((*made)->buffer.data(), bytes.data(), bytes.size());
  };
  if (extent.size <= kWholeRecordSize || source.size > kWholeRecordSize) {
    return reads_.use_record(
        extent,
        [use, begin = source.begin, size = source.size](std::span<const std::byte> record) {
          use(record.subspan(static_cast<size_t>(begin), static_cast<size_t>(size)));
        },
        std::move(done));
  }
  // A small part of a large record: its chunks will do.
  const auto part = reads_.load(extent, source.begin, static_cast<size_t>(source.size),
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

bool ExampleReads::push(const Hint& hint, const UnitPtr& record, const PageStore& push) {
  if (hint.is_of_all) return false;
  const FolderPtr folder = folders_.make_of(hint.record, record->bytes);
  const Ino top = ExampleTree::folder_ino(hint.record);
  bool is_taken = false;
  size_t file_count = 0;
  for (Ino ino = top + 1; file_count < kPushedFilesMax; ++ino) {
    const auto inode = folder->inode(ino);
    if (!inode) break;
    if (!inode->is_file()) continue;
    const FileSource& source = folder->source(ino);
    const bool is_record = source.form == FileSource::Form::kJson ||
                           (inode->parent == top && folder->name(ino) == "record.bin");
    if (is_record || source.file_size == 0) continue;
    ++file_count;
    const auto part = record->bytes.subspan(static_cast<size_t>(source.begin),
                                            static_cast<size_t>(source.size));
    if (source.form == FileSource::Form::kSlice) {
      is_taken |= push(ino, 0, part);
    } else {
      is_taken |= push(ino, 0, folder->render(source, part));
    }
  }
  return is_taken;
}

Slice ExampleReads::take(const UnitKey& key, const UnitPtr& made, Range range) {
  counters_.bytes_served.fetch_add(range.size, std::memory_order_relaxed);
  reads_.units().served(key, made->bytes.size(), made, range.size);
  return {made, made->bytes.subspan(static_cast<size_t>(range.offset), range.size)};
}

}  // namespace ffrfs
