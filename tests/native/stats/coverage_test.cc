// native/stats: the notes on each record in the file that a daemon reads; and native/prefetch:
// digests of orders.

#include "stats/coverage.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "io/file_descriptor.h"
#include "prefetch/hint_orders.h"
#include "threads.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

constexpr off_t kSize = off_t{Coverage::kBegin} + 4096;

FileDescriptor shared_file(off_t size) {
  FileDescriptor file(memfd_create("coverage", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.get(), size) == 0);
  return file;
}

std::array<uint8_t, 4> noted(const FileDescriptor& file) {
  std::array<uint8_t, 4> bytes{};
  REQUIRE(pread(file.get(), bytes.data(), bytes.size(), Coverage::kBegin) == 4);
  return bytes;
}

}  // namespace

TEST_CASE("each record has four bits, and the next process goes on with them") {
  const FileDescriptor file = shared_file(kSize);
  for (int turn = 0; turn < 2; ++turn) {
    CounterPage page(file.get());
    Coverage coverage(file.get(), 5, page);
    coverage.note_hint(1);
    coverage.note_request(2);
    coverage.note_push(3);
    coverage.leave_out(4);
    coverage.note_hint(4);
    for (const uint64_t beyond : {uint64_t{5}, uint64_t{6}, UINT64_MAX}) {
      coverage.note_hint(beyond);
      coverage.note_request(beyond);
    }
    CHECK(page.row("coverage_records") == 5);
  }
  CHECK(noted(file) == std::array<uint8_t, 4>{0x20, 0x84, 0x03, 0});
}

TEST_CASE("many threads note hints, which are counted up to two") {
  const FileDescriptor file = shared_file(kSize);
  CounterPage page(file.get());
  Coverage coverage(file.get(), 8, page);
  in_threads(4, [&coverage] {
    for (uint64_t record = 0; record < 8; ++record) {
      coverage.note_hint(record);
      coverage.note_request(record);
    }
  });
  CHECK(noted(file) == std::array<uint8_t, 4>{0x66, 0x66, 0x66, 0x66});
}

TEST_CASE("nothing is noted in a file without room") {
  const FileDescriptor file = shared_file(CounterPage::kSize);
  CounterPage page(file.get());
  for (const int fd : {-1, file.get()}) {
    Coverage coverage(fd, 5, page);
    coverage.note_hint(1);
    coverage.note_request(1);
  }
  CHECK(page.row("coverage_records") == 0);
}

TEST_CASE("the digest of an order is the SHA-256 of its texts") {
  CounterPage page;
  HintOrders orders(page);
  HintOrder none;
  orders.keep(none, true);
  CHECK(page.row("hint_orders", 97)[0] == 0);
  for (int turn = 0; turn < 18; ++turn) {
    HintOrder order;
    order.add("/a");
    order.add("/b");
    orders.keep(order, turn == 17);
    orders.keep(order, true);  // has no effect: an order is kept once
  }
  const auto row = page.row("hint_orders", 97);
  CHECK(row[0] == 18);
  const auto last = row.subspan(1 + 17 % 16 * 6, 6);
  CHECK(last[0] == 2);
  CHECK(last[1] == 1);
  // printf '/a\0/b\0' | sha256sum
  constexpr unsigned char kBegin[] = {0xbf, 0x40, 0xd8, 0x4a, 0x61, 0x86, 0xaf, 0xb3};
  const uint64_t word = last[2];
  CHECK(std::memcmp(&word, kBegin, sizeof word) == 0);
}
