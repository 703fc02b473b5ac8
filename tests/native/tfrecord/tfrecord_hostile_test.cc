// Damaged TFRecord files and sidecars: only records that were written are handed out, whatever
// happened to the file around them, and memory is allocated only for bytes that the file has.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>

#include "damage.h"
#include "examples.h"
#include "fetch/fetcher.h"
#include "frames.h"
#include "io/error.h"
#include "io/wait_check.h"
#include "scratch.h"
#include "tfrecord/sidecar.h"
#include "tfrecord/tfrecord_scan.h"
#include "tfrecord/tfrecord_shard.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

std::vector<Bytes> random_records(Random& random) {
  std::vector<Bytes> records(random() % 20);
  for (Bytes& record : records) {
    const bool is_large = random() % 16 == 0;
    record = pattern(random() % (is_large ? 40'000 : 300), static_cast<uint32_t>(random()));
  }
  return records;
}

Bytes sidecar_of(const std::vector<Bytes>& records) {
  std::vector<uint64_t> offsets{0};
  for (const Bytes& record : records) offsets.push_back(offsets.back() + record.size() + 16);
  return sidecar_text(offsets);
}

// Scans as the binding does: it makes memory for what next() announces, and read() fills that.
void scan_all(const std::string& path, const std::set<Bytes>& written, uint64_t file_size) {
  TfrecordScan scan(open_local_file(path), true);
  while (true) {
    try {
      const auto found = scan.next();
      if (found.empty()) return;
      uint64_t total = 0;
      for (const auto& record : found) total += record.size;
      REQUIRE(total <= file_size);
      std::vector<Bytes> records(found.size());
      std::vector<std::span<std::byte>> targets;
      for (size_t i = 0; i < found.size(); ++i) {
        records[i].resize(found[i].size);
        targets.push_back(std::as_writable_bytes(std::span(records[i])));
        if (found[i].bytes != nullptr) {
          std::copy_n(found[i].bytes, found[i].size, targets[i].begin());
        }
      }
      if (found[0].bytes == nullptr) records.resize(scan.read(targets));
      for (const Bytes& record : records) REQUIRE(written.contains(record));
    } catch (const ChecksumError&) {  // the scan goes on behind the bad record
    } catch (const FormatError&) {
      return;
    }
  }
}

void read_all(const ShardSet& shards, const std::set<Bytes>& written, uint64_t file_size) {
  std::vector<Bytes> records;
  std::vector<BatchItem> items;
  uint64_t total = 0;
  for (uint64_t i = 0; i < shards.count(); ++i) {
    const Extent extent = shards.extent(i);
    total += extent.size + extent.header_size + extent.trailer_size();
    REQUIRE(extent.offset + extent.size + extent.trailer_size() <= file_size);
    records.emplace_back(extent.size, '\0');
  }
  REQUIRE(total <= file_size);
  for (uint64_t i = 0; i < shards.count(); ++i) {
    items.push_back({shards.extent(i), std::as_writable_bytes(std::span(records[i]))});
  }
  Counters counters;
  Fetcher(shards, counters).read(items, true);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].error) REQUIRE(written.contains(records[i]));
  }
}

}  // namespace

TEST_CASE("damaged files and sidecars give records that were written, or errors") {
  const TemporaryFolder folder;
  const uint64_t seeds = seed_count() / 10;  // fewer, since each writes files
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto originals = random_records(random);
    const std::set<Bytes> written(originals.begin(), originals.end());
    const Bytes file = random() % 8 == 0 ? framed(originals) : damaged(framed(originals), random);
    const std::string path = folder.write("x.tfrecord", file);
    const std::string sidecar = path + ".idx";
    std::filesystem::remove(sidecar);
    if (random() % 2 == 0) {
      const Bytes lines = sidecar_of(originals);
      folder.write("x.tfrecord.idx", random() % 2 == 0 ? lines : damaged(lines, random));
    }
    scan_all(path, written, file.size());
    try {
      read_all(open_tfrecord_shards({path}), written, file.size());
    } catch (const FormatError&) {
    }
  }
}

TEST_CASE("a stranger's sidecar beside a file in a sticky folder is not used") {
  if (geteuid() != 0) return;  // only root can change the owner of a file
  constexpr uid_t kStranger = 12346;
  const std::vector<Bytes> records{pattern(5, 1), pattern(300, 2)};
  for (const char* name : {"a.tfrecord.idx", "a.tfrecord.tfindex", "a.idx", "a.tfindex"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string path = folder.write("a.tfrecord", framed(records));
    const std::string sidecar = folder.write(name, sidecar_of(records));
    const auto is_used = [&] { return TfrecordShard(open_local_file(path), true).used_sidecar(); };
    REQUIRE(chown(sidecar.c_str(), kStranger, kStranger) == 0);
    CHECK(is_used());  // the stranger could replace the file as well
    REQUIRE(chmod((folder / "").c_str(), S_ISVTX | 0777) == 0);
    CHECK_FALSE(is_used());
    REQUIRE(chown(path.c_str(), kStranger, kStranger) == 0);
    CHECK(is_used());  // it belongs to the owner of the file
  }
}

TEST_CASE("Ctrl-C ends the opening of many files, also in other threads") {
  std::atomic<size_t> count{0};
  const pid_t main = gettid();
  const OpenSource open = [&](const std::string&) -> std::unique_ptr<const Source> {
    ++count;
    if (gettid() == main) throw Interrupted{};
    while (true) check_wait();  // as with a server that does not answer
  };
  const std::vector<std::string> paths(1000, "x.tfrecord");
  CHECK_THROWS_AS((void)open_tfrecord_shards(paths, false, open), Interrupted);
  CHECK(count <= 8);  // at most one in each thread
}

TEST_CASE("Ctrl-C ends a scan that waits for a server") {
  // The user presses Ctrl-C once, while the scan waits for the bytes at `place` for the nth time.
  class Waiting final : public Source {
   public:
    Waiting(const Bytes& file, uint64_t place, int nth)
        : Source("x", {.size = file.size()}), file_(file), place_(place), left_(nth) {}
    [[nodiscard]] bool is_cached(uint64_t, size_t) const override { return false; }
    [[nodiscard]] bool read_now(uint64_t, Parts) const override { return false; }
    [[nodiscard]] bool is_near(uint64_t, size_t) const override { return false; }
    void read_fully(uint64_t offset, std::span<std::byte> target) const override {
      if (left_ == 0) ++later;
      if (offset == place_ && left_ > 0 && --left_ == 0) throw Interrupted{};
      std::ranges::copy(view(file_).subspan(offset, target.size()), target.begin());
    }

    mutable size_t later = 0;  // reads after the Ctrl-C

   private:
    const Bytes& file_;
    const uint64_t place_;
    mutable int left_;
  };
  const Bytes record = pattern(3 << 20, 1);
  const Bytes file = framed({record, record, record});
  const uint64_t frame_size = record.size() + kFramingSize;
  // It waits for the second record's header, the first record, or the header behind both records.
  for (const auto& wait :
       {std::pair(frame_size, 1), std::pair(uint64_t{12}, 1), std::pair(2 * frame_size, 2)}) {
    CAPTURE(wait.first);
    const auto source = std::make_shared<Waiting>(file, wait.first, wait.second);
    TfrecordScan scan(source, true);
    std::vector<Bytes> records(2, Bytes(record.size(), '?'));
    std::vector<std::span<std::byte>> targets;
    for (Bytes& one : records) targets.push_back(std::as_writable_bytes(std::span(one)));
    const auto read = [&] {
      if (scan.next().size() == 2) (void)scan.read(targets);
    };
    CHECK_THROWS_AS(read(), Interrupted);
    CHECK(source->later == 0);
  }
}
