#include "volume/blocking_volume.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "io/error.h"
#include "tree/name.h"

namespace ffrfs {

// Other threads wait for the same event: their poll() may run the callback of this call.
void BlockingVolume::wait_until(const std::function<bool()>& is_ready) {
  while (!is_ready()) {
    volume_.take_turn(is_ready, idle_ms_);
    idle_();
  }
}

TreePtr BlockingVolume::load_tree(Need need, Ino ino) {
  if (TreePtr part = volume_.find_tree(need, ino)) return part;
  auto result = std::make_shared<Result<TreePtr>>();
  if (TreePtr part = volume_.load_tree(need, ino, deliver(result))) return part;
  wait_until([&] { return result->ready.load(std::memory_order_acquire); });
  if (result->error) std::rethrow_exception(result->error);
  return result->value;
}

Ino BlockingVolume::resolve(std::string_view path) {
  Ino ino = kRootIno;
  while (!path.empty() && ino != 0) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (!part.empty() && part != ".") ino = load_tree(Need::kEntries, ino)->lookup(ino, part);
  }
  return ino;
}

Slice BlockingVolume::read(Ino ino, uint64_t offset, size_t size) {
  auto result = std::make_shared<Result<Slice>>();
  if (auto slice = volume_.read(ino, offset, size, deliver(result))) return std::move(*slice);
  wait_until([&] { return result->ready.load(std::memory_order_acquire); });
  if (result->error) std::rethrow_exception(result->error);
  return std::move(result->value);
}

// Concurrent reads of one call. They end in poll(), perhaps after the call has returned.
struct BlockingVolume::Together {
  std::mutex mutex;  // guards all but `missing`
  bool abandoned = false;  // the targets no longer exist
  std::exception_ptr error;
  Ino changed = 0;  // a file that is shorter than its target
  std::atomic<size_t> missing{0};

  void arrive(Ino ino, const Slice& slice, const std::exception_ptr& failure,
              std::span<std::byte> target) {
    const std::lock_guard lock(mutex);
    if (failure) {
      if (!error) error = failure;
    } else if (slice.bytes.size() != target.size()) {
      changed = ino;
    } else if (!abandoned) {
      std::memcpy(target.data(), slice.bytes.data(), target.size());
    }
    missing.fetch_sub(1, std::memory_order_release);
  }
};

void BlockingVolume::read_files(std::span<const std::pair<Ino, std::span<std::byte>>> files) {
  const auto all = std::make_shared<Together>();
  try {
    for (const auto& [ino, whole] : files) {
      // In pieces, so that no more of a large file is held than necessary.
      for (size_t done = 0; done < whole.size(); done += kWholeRecordSize) {
        const auto target =
            whole.subspan(done).first(std::min<size_t>(whole.size() - done, kWholeRecordSize));
        const auto arrive = [all, file = ino, target](const Slice& slice,
                                                      const std::exception_ptr& failure) {
          all->arrive(file, slice, failure, target);
        };
        all->missing.fetch_add(1, std::memory_order_relaxed);
        if (const auto slice = volume_.read(ino, done, target.size(), arrive)) {
          arrive(*slice, nullptr);
        }
      }
    }
    wait_until([&] { return all->missing.load(std::memory_order_acquire) == 0; });
  } catch (...) {
    const std::lock_guard lock(all->mutex);
    all->abandoned = true;
    throw;
  }
  if (all->error) std::rethrow_exception(all->error);
  // Without checksums nothing else notices that a TFRecord file was overwritten.
  if (all->changed != 0) {
    throw FormatError(volume_.shards().shard(volume_.shard_of(all->changed)).file().path(),
                      in_quotes(volume_.path(all->changed)) +
                          " has changed size while it was read; restore the file, or open it anew");
  }
}

}  // namespace ffrfs
