// A remote object as a source: cached blocks are near, and the fetcher downloads all others.
//
//   read_now()     reads the cache's file, if it is in memory
//   read_fully()   the same, but may wait for the disk; requests absent blocks and waits for them
//                  (or throws FarAway: NearOnly)
//   prepare()      requests blocks; the link's thread reports when they are cached
//   will_need()    near blocks are read from the cache's disk, far ones requested, ahead of need
//   refetch()      fetches blocks again, even if they are cached
//
// Reads go through the page cache, where the fetcher has just written the blocks; a block leaves
// the page cache once it was read to its end (RemoteObject). Blocks of an earlier mount are on disk
// alone, and the read queue reads them without the page cache. Thread-safe. Survives fork(): a child
// process uses a link of its own.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/process_local.h"
#include "io/source.h"
#include "remote/object_link.h"
#include "remote/remote_object.h"

namespace ffrfs::remote {

// The process's link, made when it is first needed.
using Links = ProcessLocal<ObjectLink>;

// Keeps an object open until its last reader is gone.
class OpenObject {
 public:
  OpenObject(std::shared_ptr<Links> links, ObjectLink& link, std::shared_ptr<RemoteObject> object)
      : links_(std::move(links)), link_(link), object_(std::move(object)) {}
  OpenObject(const OpenObject&) = delete;
  OpenObject& operator=(const OpenObject&) = delete;
  ~OpenObject() { link_.close(*object_); }

  [[nodiscard]] ObjectLink& link() const { return link_; }
  [[nodiscard]] const std::shared_ptr<RemoteObject>& object() const { return object_; }
  [[nodiscard]] const std::shared_ptr<Links>& links() const { return links_; }

 private:
  const std::shared_ptr<Links> links_;  // must outlive this object
  ObjectLink& link_;
  const std::shared_ptr<RemoteObject> object_;
};

class RemoteFile final : public Source {
 public:
  explicit RemoteFile(std::shared_ptr<const OpenObject> object);

  [[nodiscard]] bool is_cached(uint64_t offset, size_t size) const override;
  [[nodiscard]] bool read_now(uint64_t offset, Parts parts) const override;
  [[nodiscard]] const DirectFile* direct() const override { return &kDirect; }
  [[nodiscard]] DirectRead begin_direct(uint64_t offset, size_t size) const override;
  void read_fully(uint64_t offset, std::span<std::byte> target) const override;
  [[nodiscard]] bool is_near(uint64_t offset, size_t size) const override;
  void prepare(uint64_t offset, size_t size, Urgency urgency, Prepared prepared) const override;
  void will_need(uint64_t offset, size_t size) const override;
  [[nodiscard]] bool reads_ahead() const override { return true; }
  [[nodiscard]] bool can_refetch() const override { return true; }
  void refetch(uint64_t offset, size_t size, Prepared prepared) const override;
  [[nodiscard]] std::string identity() const override;

 private:
  using Object = std::shared_ptr<RemoteObject>;

  [[nodiscard]] const OpenObject& open() const { return *attached_.get(); }
  [[nodiscard]] std::shared_ptr<const OpenObject> attach() const;
  [[nodiscard]] const ObjectFacts& facts() const { return first_->object()->facts(); }
  void ask(const OpenObject& open, Ask ask, BlockRange range, Prepared prepared) const;
  void wait_for(const OpenObject& open, BlockRange range) const;
  [[nodiscard]] bool read_piece(const OpenObject& open, uint64_t offset,
                                std::span<std::byte> target) const;
  void note_kept(bool is_kept) const;
  [[nodiscard]] uint64_t piece_blocks() const {
    return piece_blocks_.load(std::memory_order_relaxed);
  }
  void note_used(const OpenObject& open, uint64_t offset, uint64_t size) const;
  void read_on(BlockRange missing) const;

  static constexpr uint64_t kPieceBlocks = 16;
  // The descriptor is that of the present cache (begin_direct()).
  static constexpr DirectFile kDirect{.fd = -1, .alignment = CachedFiles::kDirectAlignment};

  const std::shared_ptr<const OpenObject> first_;
  const std::shared_ptr<const CachedFiles> first_files_;  // for child processes
  const uint64_t process_;
  // The block after the last one that a read waited for, and how far ahead of it is requested.
  mutable std::atomic<uint64_t> run_next_{UINT64_MAX};
  mutable std::atomic<uint64_t> run_blocks_{0};
  // The size of the pieces of long reads, smaller if the cache drops them too early; and how many
  // pieces stayed cached.
  mutable std::atomic<uint64_t> piece_blocks_{kPieceBlocks};
  mutable std::atomic<uint64_t> good_pieces_{0};
  mutable ProcessLocal<std::shared_ptr<const OpenObject>> attached_;
};

}  // namespace ffrfs::remote
