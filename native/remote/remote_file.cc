#include "remote/remote_file.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "remote/remote_error.h"

namespace ffrfs::remote {
namespace {

// The most pieces that are requested ahead of a long read, and of a run of reads.
constexpr uint64_t kAheadPieces = 4;
constexpr uint64_t kRunPieces = 2;
// After so many pieces that stayed cached until they were read, pieces get larger again.
constexpr uint64_t kGoodPieces = 64;
// How often a piece is requested that the cache has dropped again.
constexpr int kTryCount = 16;

BlockRange first_of(BlockRange range, uint64_t count) {
  return {.first = range.first, .count = std::min(range.count, count)};
}

}  // namespace

RemoteFile::RemoteFile(std::shared_ptr<const OpenObject> object)
    : Source(object->object()->name(), {.size = object->object()->facts().size,
                                        .mtime_ns = object->object()->facts().mtime_ns,
                                        .owner = geteuid()}),
      first_(std::move(object)),
      first_files_(first_->object()->files()),
      process_(process_number()),
      attached_([this] { return std::make_unique<std::shared_ptr<const OpenObject>>(attach()); }) {}

std::shared_ptr<const OpenObject> RemoteFile::attach() const {
  if (process_number() == process_) return first_;
  const std::shared_ptr<Links>& links = first_->links();
  ObjectLink& link = links->get();
  return std::make_shared<const OpenObject>(links, link,
                                            link.adopt(*first_->object(), first_files_));
}

std::string RemoteFile::identity() const {
  if (facts().pin.empty()) return "";
  return first_->object()->url() + '\n' + facts().pin + '\n' + std::to_string(facts().size);
}

bool RemoteFile::is_cached(uint64_t offset, size_t size) const {
  if (size == 0) return true;
  const auto files = open().object()->files();
  return files->has(facts().blocks_of(offset, size)) && files->is_in_memory(offset, size);
}

bool RemoteFile::read_now(uint64_t offset, Parts parts) const {
  size_t size = 0;
  for (const auto part : parts) size += part.size();
  if (size == 0) return true;
  if (offset > this->size() || size > this->size() - offset) return false;
  const OpenObject& now = open();
  if (!now.object()->files()->read_now(offset, size, parts)) return false;
  note_used(now, offset, size);
  return true;
}

bool RemoteFile::is_near(uint64_t offset, size_t size) const {
  return size == 0 || open().object()->files()->has(facts().blocks_of(offset, size));
}

void RemoteFile::note_used(const OpenObject& open, uint64_t offset, uint64_t size) const {
  if (open.object()->note_used(offset, size)) open.link().note_used();
}

// `prepared` always runs.
void RemoteFile::ask(const OpenObject& open, Ask ask, BlockRange range, Prepared prepared) const {
  open.link().want(open.object(), ask, first_of(range, BlockRange::kCountMax),
                   [object = open.object(), range,
                    prepared = std::move(prepared)](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const RemoteError& why) {
      if (why.is_timeout()) object->note_failure(range, error);
    } catch (...) {
    }
    prepared(error);
  });
}

void RemoteFile::prepare(uint64_t offset, size_t size, Urgency urgency, Prepared prepared) const {
  if (size == 0) return prepared(nullptr);
  const OpenObject& now = open();
  const auto missing = now.object()->files()->find_missing(facts().blocks_of(offset, size));
  if (!missing) return prepared(nullptr);
  if (const auto failure = now.object()->recent_failure(*missing)) return prepared(failure);
  read_on(*missing);
  ask(now, urgency == Urgency::kSomeoneWaits ? Ask::kWant : Ask::kSoon, *missing,
      std::move(prepared));
}

void RemoteFile::refetch(uint64_t offset, size_t size, Prepared prepared) const {
  if (size == 0) return prepared(nullptr);
  ask(open(), Ask::kAgain, facts().blocks_of(offset, size), std::move(prepared));
}

void RemoteFile::will_need(uint64_t offset, size_t size) const {
  if (offset >= this->size() || size == 0) return;
  const BlockRange range =
      facts().blocks_of(offset, std::min<uint64_t>(size, this->size() - offset));
  const OpenObject& now = open();
  const auto files = now.object()->files();
  const auto missing = files->find_missing(range);
  if (!missing) return files->will_need(offset, size);
  const uint64_t blocks = piece_blocks();
  const uint64_t most = blocks == kPieceBlocks ? BlockRange::kCountMax : kAheadPieces * blocks;
  for (const BlockRange part : now.object()->take_ahead(first_of(*missing, most))) {
    now.link().want(
        now.object(), Ask::kSoon, part,
        [object = now.object(), part](const std::exception_ptr&) { object->forget_ahead(part); });
  }
}

// Detects sequential reads: if a read waits for blocks that follow the last ones, blocks after it
// are requested ahead, twice as many each time. Threads that read at once may mislead it, at little
// cost.
void RemoteFile::read_on(BlockRange missing) const {
  const uint64_t behind = missing.first + missing.count;
  const uint64_t next = run_next_.exchange(behind, std::memory_order_relaxed);
  const uint64_t reach = run_blocks_.load(std::memory_order_relaxed);
  const bool is_run = missing.first >= next && missing.first <= next + reach;
  const uint64_t most = kRunPieces * piece_blocks();
  const uint64_t blocks = is_run ? std::clamp<uint64_t>(2 * reach, 1, most) : 0;
  run_blocks_.store(blocks, std::memory_order_relaxed);
  const uint64_t begin = behind * facts().block_size;
  if (blocks > 0) will_need(begin, static_cast<size_t>(blocks * facts().block_size));
}

void RemoteFile::wait_for(const OpenObject& open, BlockRange range) const {
  if (NearOnly::is_here()) {
    const uint64_t begin = range.first * facts().block_size;
    const uint64_t size = std::min(range.count * facts().block_size, this->size() - begin);
    throw FarAway(*this, begin, static_cast<size_t>(size));
  }
  read_on(range);
  if (const auto failure = open.object()->recent_failure(range)) std::rethrow_exception(failure);
  wait_until_prepared(
      [&](Prepared prepared) { ask(open, Ask::kWant, range, std::move(prepared)); });
}

void RemoteFile::read_fully(uint64_t offset, std::span<std::byte> target) const {
  if (offset > size() || target.size() > size() - offset) {
    throw StorageError(EIO, path(), "ends at offset " + std::to_string(size()));
  }
  const OpenObject& now = open();
  for (int tries_left = kTryCount; !target.empty();) {
    const uint64_t piece_size = piece_blocks() * facts().block_size;
    const auto piece = target.first(
        static_cast<size_t>(std::min<uint64_t>(target.size(), piece_size - offset % piece_size)));
    const uint64_t rest = target.size() - piece.size();
    if (rest > 0) {
      will_need(offset + piece.size(),
                static_cast<size_t>(std::min<uint64_t>(rest, kAheadPieces * piece_size)));
    }
    const bool is_read = read_piece(now, offset, piece);
    note_kept(is_read);
    if (is_read) {
      target = target.subspan(piece.size());
      offset += piece.size();
      tries_left = kTryCount;
    } else if (--tries_left == 0) {
      throw RemoteError("CacheError", path(),
                        "its cache loses blocks faster than they are read; make the cache larger, "
                        "or look at what changes its files");
    }
  }
}

DirectRead RemoteFile::begin_direct(uint64_t offset, size_t size) const {
  const OpenObject& now = open();
  const auto files = now.object()->files();
  DirectRead read = files->begin_direct(offset, size);
  if (read.fd < 0) return read;
  return {.fd = read.fd,
          .is_good = [this, &now, files, offset, size, check = std::move(read.is_good)] {
    if (!check()) return false;
    note_used(now, offset, size);
    return true;
  }};
}

// Returns false if the cache has dropped some of the piece again.
bool RemoteFile::read_piece(const OpenObject& open, uint64_t offset,
                            std::span<std::byte> target) const {
  using Found = CachedFiles::Found;
  const BlockRange range = facts().blocks_of(offset, target.size());
  Found found = open.object()->files()->read(offset, target);
  if (found != Found::kAll) {
    if (found == Found::kLost) {
      refetch_and_wait(*this, offset, target.size());
    } else if (const auto missing = open.object()->files()->find_missing(range)) {
      wait_for(open, *missing);
    }
    found = open.object()->files()->read(offset, target);
  }
  if (found != Found::kAll) return false;
  note_used(open, offset, target.size());
  return true;
}

// Halves or doubles the size of pieces: the cache may be smaller than a read, or have many users.
void RemoteFile::note_kept(bool is_kept) const {
  const uint64_t blocks = piece_blocks();
  if (!is_kept) {
    piece_blocks_.store(std::max<uint64_t>(blocks / 2, 1), std::memory_order_relaxed);
  } else if (blocks < kPieceBlocks &&
             good_pieces_.fetch_add(1, std::memory_order_relaxed) % kGoodPieces ==
                 kGoodPieces - 1) {
    piece_blocks_.store(2 * blocks, std::memory_order_relaxed);
  }
}

}  // namespace ffrfs::remote
