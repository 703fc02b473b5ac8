// Digests of the order in which clients have sent their hints, as a receipt of an epoch: SHA-256
// over the texts, a zero byte after each.
//
// The last kKept of them are in the counter page, where the daemon reads them:
//   hint_orders       how many clients have ended, and then for each of the last ones, in turn:
//                     how many hints, whether it has said that these were all, four words of digest
//
// One thread (the hint server's).

#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "stats/counter_page.h"

namespace ffrfs {

// The order of one client.
class HintOrder {
 public:
  HintOrder();
  void add(std::string_view text);

 private:
  friend class HintOrders;
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;  // nullptr: out of memory
  uint64_t count_ = 0;
};

class HintOrders {
 public:
  static constexpr size_t kKept = 16;
  static constexpr size_t kWords = 6;

  explicit HintOrders(CounterPage& page) : row_(page.row("hint_orders", 1 + kKept * kWords)) {}

  void keep(HintOrder& order, bool is_complete);

 private:
  std::span<Counter> row_;
};

}  // namespace ffrfs
