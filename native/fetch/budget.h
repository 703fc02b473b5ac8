// How much memory the read path holds: one limit (--cache-mb), divided into accounts. Each
// byte is in one account, from before it is allocated until after it is freed.
//
//   admit()       waits for room: what a reader wants from storage
//   try_reserve() takes no for an answer: what nothing waits for
//   reserve()     is always granted: bytes that are at hand, and freed in a moment
//
// Any thread. The lock is held for a few instructions; under it only on_room() is called.
// Reservations may outlive the budget.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "stats/counters.h"

namespace ffrfs {

enum class Account : uint8_t {
  kInFlight,  // being read, checked, put together or answered
  kKept,      // wanted again soon: a part of it was read
  kAhead,     // read ahead, or about to be
  kMetadata,  // made of records: directories, fingerprints of chunks
  kSpare,     // freed buffers that are used again
};
inline constexpr size_t kAccountCount = 5;

// Sixteenths of the limit, by account.
inline constexpr std::array<size_t, kAccountCount> kShares{8, 4, 2, 1, 1};
static_assert(std::accumulate(kShares.begin(), kShares.end(), size_t{0}) == 16);

[[nodiscard]] constexpr size_t share_of(Account account, size_t limit_bytes) {
  return limit_bytes / 16 * kShares[static_cast<size_t>(account)];
}

// Some memory in an account, until this goes. One thread at a time.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    Reservation(std::move(other)).swap(*this);
    return *this;
  }
  ~Reservation() { change(0, account_); }

  [[nodiscard]] size_t size() const { return size_; }
  void resize(size_t size) { change(size, account_); }
  void move_to(Account account) { change(size_, account); }
  // What was admitted has been read. It counts still, but the next may come if no other is
  // being read: a reader that has one unit may be waiting for another.
  void settle();

 private:
  friend class Budget;
  struct Ledger;

  Reservation(std::shared_ptr<Ledger> ledger, Account account, size_t size, bool is_admitted)
      : ledger_(std::move(ledger)), account_(account), size_(size), is_admitted_(is_admitted) {}
  void swap(Reservation& other) noexcept;
  void change(size_t size, Account account);

  std::shared_ptr<Ledger> ledger_;
  Account account_ = Account::kInFlight;
  size_t size_ = 0;
  bool is_admitted_ = false;
};

class Budget {
 public:
  Budget(size_t limit_bytes, Counters& counters);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  [[nodiscard]] size_t used(Account account) const;
  [[nodiscard]] size_t limit(Account account) const;
  // By the limit at the beginning: what can be held at all.
  [[nodiscard]] size_t first_limit(Account account) const {
    return share_of(account, first_limit_bytes_);
  }
  // The room of an account follows at once; what is held beyond is for its owners to drop.
  void set_limit(size_t limit_bytes);

  [[nodiscard]] Reservation reserve(Account account, size_t size);
  // nullopt: the account would hold more than `part` of its share.
  [[nodiscard]] std::optional<Reservation> try_reserve(Account account, size_t size,
                                                       double part = 1);

  // Calls `start`, which must not throw, when there is room in flight: at once, or in
  // admit_waiting(). One is always let through. See Reservation::settle().
  using Start = std::function<void(Reservation)>;
  void admit(size_t size, Start start);
  void admit_waiting();
  [[nodiscard]] bool has_waiting() const;
  // `on_room` is called, from any thread, when admit_waiting() has something to do. It must
  // not call this.
  void set_on_room(std::function<void()> on_room);

 private:
  using Ledger = Reservation::Ledger;

  [[nodiscard]] std::optional<Reservation> take_admitted(size_t size);

  const size_t first_limit_bytes_;
  const std::shared_ptr<Ledger> ledger_;
};

}  // namespace ffrfs
