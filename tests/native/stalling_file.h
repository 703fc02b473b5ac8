// A pack whose mapped index has many blocks, on a disk that holds back one place of it.

#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "index_file.h"
#include "io/local_file.h"

namespace ffrfs::test {

// A file whose reads of the byte at `stalled` wait while `is_stalled`.
struct StallingFile final : Source {
  struct Stall {
    std::atomic<bool> is_stalled{true};
    std::atomic<int> waiting{0};  // number of waiting reads
  };

  StallingFile(const std::string& path, uint64_t byte, Stall& by)
      : Source(path, LocalFile(path).facts()), file(path), stalled(byte), stall(by) {}

  [[nodiscard]] bool is_cached(uint64_t, size_t) const override { return false; }
  [[nodiscard]] bool read_now(uint64_t, Parts) const override { return false; }
  void read_fully(uint64_t offset, std::span<std::byte> target) const override {
    if (offset <= stalled && stalled < offset + target.size()) {
      ++stall.waiting;
      stall.is_stalled.wait(true);
      --stall.waiting;
    }
    file.read_fully(offset, target);
  }

  LocalFile file;
  uint64_t stalled;
  Stall& stall;
};

class StallingPack {
 public:
  static constexpr uint64_t kFileCount = 40'000;
  // A damaged record whose entries are far from those of the first and of the last. The entries of
  // the next record are in the same pages.
  static constexpr uint64_t kMiddle = kFileCount / 2;
  static constexpr Ino ino_of(uint64_t record) { return record + 2; }

  enum class Stalled { kName, kFile, kOffset };  // which entry of kMiddle
  explicit StallingPack(Stalled what) {
    static const PackedIndex packed = make();
    path = folder_.write("x.ffr", packed.file);
    const auto entry = [&](Section section, uint64_t size) {
      const auto& place = packed.trailer.sections[static_cast<size_t>(section)];
      in_block_ = (place.offset + size * kMiddle) % kIndexBlockSize / size;
      return packed.index_begin + place.offset + size * kMiddle;
    };
    switch (what) {
      case Stalled::kName: stalled_ = entry(Section::kNames, many(1)[0].size()); break;
      case Stalled::kFile: stalled_ = entry(Section::kFiles, sizeof(uint32_t)); break;
      case Stalled::kOffset: stalled_ = 12 + 4 * (kFileCount + 1) + 8 * kMiddle; break;
    }
  }
  ~StallingPack() { go(); }

  [[nodiscard]] OpenSource open() {
    return [this](const std::string& opened) -> std::unique_ptr<const Source> {
      return std::make_unique<const StallingFile>(opened, stalled_, stall_);
    };
  }
  void go() {
    stall_.is_stalled = false;
    stall_.is_stalled.notify_all();
  }
  void stall() { stall_.is_stalled = true; }
  [[nodiscard]] bool has_waiting() const { return stall_.waiting > 0; }
  // The first record whose entry is in the same block as kMiddle's name or file.
  [[nodiscard]] uint64_t first_late() const { return kMiddle - in_block_; }

  std::string path;

 private:
  static PackedIndex make() {
    PackedIndex made =
        indexed_pack(std::vector<Bytes>(kFileCount, "x"), flat_sections(many(kFileCount)));
    made.file[ffrecord_header_size(kFileCount + 1) + kMiddle] = 'y';
    return made;
  }

  const TemporaryFolder folder_;
  uint64_t stalled_ = 0;
  uint64_t in_block_ = 0;
  StallingFile::Stall stall_;
};

}  // namespace ffrfs::test
