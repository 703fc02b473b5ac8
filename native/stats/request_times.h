// Counts the requests of each kind that an engine has answered, and the time from receiving to
// answering: a histogram by kind, "request.KIND" in a volume's counter page, and the sum of the
// times, "request_ns.KIND".
//
// A bucket is a quarter of an octave: with `units` of 256 ns,
//
//   units 0 to 3    bucket = units
//   from 4 on       bucket = 4 * e + (units >> e),   e = bits(units) - 3
//
// so p50 and p99 are accurate within a quarter. The last bucket takes all longer times.
// Thread-safe.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "stats/counter_page.h"

namespace ffrfs {

enum class RequestKind {
  kLookup,
  kGetattr,
  kReadlink,
  kOpen,
  kRead,
  kRelease,
  kOpendir,
  kReaddir,
  kReleasedir,
  kStatfs,
  kGetxattr,
  kListxattr,
  kRefuse,  // the last: requests that would change the tree
};
inline constexpr std::array<std::string_view, 13> kRequestKindNames = {
    "lookup",  "getattr",    "readlink", "open",     "read",      "release", "opendir",
    "readdir", "releasedir", "statfs",   "getxattr", "listxattr", "refuse"};

class RequestTimes {
 public:
  static constexpr size_t kBucketCount = 108;  // the last begins at 60 s
  // A request is slow from here on: about a second, and the begin of a bucket, so that the
  // histogram has the number of slow requests.
  static constexpr uint64_t kSlowNs = uint64_t{1} << 30;

  explicit RequestTimes(CounterPage& page) {
    for (size_t kind = 0; kind < kRequestKindNames.size(); ++kind) {
      const std::string name(kRequestKindNames[kind]);
      rows_[kind] = page.row("request." + name, kBucketCount);
      sums_ns_[kind] = &page.row("request_ns." + name);
    }
  }

  void add(RequestKind kind, uint64_t elapsed_ns) {
    const auto row = static_cast<size_t>(kind);
    rows_[row][bucket(elapsed_ns)].fetch_add(1, std::memory_order_relaxed);
    sums_ns_[row]->fetch_add(elapsed_ns, std::memory_order_relaxed);
  }

  // Throws std::invalid_argument.
  [[nodiscard]] static RequestKind kind_of(std::string_view name) {
    for (size_t kind = 0; kind < kRequestKindNames.size(); ++kind) {
      if (kRequestKindNames[kind] == name) return static_cast<RequestKind>(kind);
    }
    throw std::invalid_argument("no kind of request: " + std::string(name));
  }

  [[nodiscard]] static size_t bucket(uint64_t elapsed_ns) {
    const uint64_t units = elapsed_ns >> 8;
    if (units < 4) return static_cast<size_t>(units);
    const auto e = static_cast<size_t>(std::bit_width(units)) - 3;
    return std::min(4 * e + static_cast<size_t>(units >> e), kBucketCount - 1);
  }

 private:
  std::array<std::span<Counter>, kRequestKindNames.size()> rows_;
  std::array<Counter*, kRequestKindNames.size()> sums_ns_{};
};

}  // namespace ffrfs
