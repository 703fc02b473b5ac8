#include "tfrecord/tfrecord_shard.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "io/error.h"
#include "io/shared_pass.h"
#include "io/wait_check.h"
#include "tfrecord/framing.h"
#include "tfrecord/sidecar.h"

namespace ffrfs {
namespace {

constexpr size_t kOpeningThreads = 8;

// Returns whether the bytes begin like a zlib stream (RFC 1950): deflate, a window of up to 32 KiB,
// a multiple of 31, no dictionary. A weak sign, only for files that are not TFRecord.
bool is_zlib(std::span<const std::byte> begin) {
  if (begin.size() < 2) return false;
  const auto method = std::to_integer<unsigned>(begin[0]);
  const auto flags = std::to_integer<unsigned>(begin[1]);
  return (method & 0x0f) == 8 && (method >> 4) <= 7 && (method * 256 + flags) % 31 == 0 &&
         (flags & 0x20) == 0;
}

void refuse_compressed(const Source& file) {
  std::array<std::byte, kFrameHeaderSize> memory;
  const auto begin =
      std::span(memory).first(static_cast<size_t>(std::min<uint64_t>(file.size(), memory.size())));
  file.read_fully(0, begin);
  if (is_frame_header(begin) || !(is_gzip(begin) || is_zlib(begin))) return;
  throw FormatError(file.path(), std::string("is compressed (") +
                                     (is_gzip(begin) ? "GZIP" : "ZLIB") +
                                     "): records in it cannot be reached one by one; convert it "
                                     "first: ffrfs convert " +
                                     file.path() + " OUT.tfrecord");
}

}  // namespace

TfrecordShard::TfrecordShard(std::unique_ptr<const Source> source, bool use_sidecar)
    : Shard(std::move(source)) {
  if (use_sidecar) offsets_ = read_sidecar(file());
  used_sidecar_ = !offsets_.empty();
  if (used_sidecar_) return;
  refuse_compressed(file());
  offsets_ = frame_offsets(file());
}

Extent TfrecordShard::extent(uint64_t record) const {
  return {.shard = 0,
          .record = record,
          .offset = offsets_[record] + kFrameHeaderSize,
          .size = offsets_[record + 1] - offsets_[record] - kFramingSize,
          .checksum = Checksum::kMaskedCrc32c,
          .crc32 = 0,
          .header_size = kFrameHeaderSize};
}

uint64_t TfrecordShard::byte_count() const { return offsets_.back() - count() * kFramingSize; }

bool is_gzip(std::span<const std::byte> begin) {
  // RFC 1952: the magic, and deflate, which is the only method.
  constexpr std::array kBegin{std::byte{0x1f}, std::byte{0x8b}, std::byte{0x08}};
  return begin.size() >= kBegin.size() && std::ranges::equal(begin.first(kBegin.size()), kBegin);
}

ShardSet open_tfrecord_shards(const std::vector<std::string>& paths, bool use_sidecars,
                              const OpenSource& open) {
  if (paths.empty()) throw FormatError("no TFRecord file was named");
  const remote::OpenTogether together(paths);
  std::vector<std::unique_ptr<const Shard>> shards(paths.size());
  std::vector<std::exception_ptr> errors(paths.size());
  SharedPass pass(paths.size(), [&](size_t i) {
    try {
      shards[i] = std::make_unique<TfrecordShard>(open(paths[i]), use_sidecars);
    } catch (const Interrupted&) {
      throw;
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  {
    std::vector<std::jthread> threads;
    try {
      while (threads.size() + 1 < std::min(paths.size(), kOpeningThreads)) {
        threads.emplace_back([&pass] { pass.run(); });
      }
    } catch (const std::system_error&) {
      // No more threads can be created: the existing ones do the work.
    }
    pass.run();
    pass.wait();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return ShardSet(std::move(shards));
}

}  // namespace ffrfs
