// Accounts for the memory that the read path holds: one limit (--cache-mb), divided into accounts.
// Each byte is in one account, from before it is allocated until after it is freed.
//
//   admit()       waits for room: for reads that a reader waits for
//   try_reserve() fails if there is no room: for reads that nothing waits for
//   reserve()     always succeeds: for bytes that are at hand and soon freed
//
// Thread-safe. The lock is held for a few instructions; the only callback under it is on_room().
// Reservations may outlive the budget.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
  kInFlight,  // being read, checked, assembled or sent
  kKept,      // kept because a reader took only a part so far
  kAhead,     // read ahead, or about to be
  kMetadata,  // derived from records: directories, fingerprints of chunks
  kSpare,     // freed buffers that will be reused
};
inline constexpr size_t kAccountCount = 5;

// The share of each account, in sixteenths of the limit.
inline constexpr std::array<size_t, kAccountCount> kShares{8, 4, 2, 1, 1};
static_assert(std::accumulate(kShares.begin(), kShares.end(), size_t{0}) == 16);

[[nodiscard]] constexpr size_t share_of(Account account, size_t limit_bytes) {
  return limit_bytes / 16 * kShares[static_cast<size_t>(account)];
}

// Holds some memory in an account until it is destroyed. One thread at a time.
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
  // Says that the admitted read has ended. Its bytes still count, but if no other admitted read is
  // under way the next one may start: a reader that holds one unit may be waiting for another.
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
  // Returns the share of the limit at construction: the most that can ever be held.
  [[nodiscard]] size_t first_limit(Account account) const {
    return share_of(account, first_limit_bytes_);
  }
  // Changes the limits of all accounts at once. Bytes beyond them are for their owners to drop.
  void set_limit(size_t limit_bytes);

  [[nodiscard]] Reservation reserve(Account account, size_t size);
  // Returns nullopt if the account would hold more than `part` of its share.
  [[nodiscard]] std::optional<Reservation> try_reserve(Account account, size_t size,
                                                       double part = 1);

  // Calls `start`, which must not throw, when there is room in flight: at once, or in
  // admit_waiting(). A request is always admitted if no other is. See Reservation::settle().
  using Start = std::function<void(Reservation)>;
  void admit(size_t size, Start start);
  void admit_waiting();
  [[nodiscard]] bool has_waiting() const;
  // Sets a callback that runs, on any thread, when admit_waiting() may have something to start. The
  // callback must not call the budget.
  void set_on_room(std::function<void()> on_room);

 private:
  using Ledger = Reservation::Ledger;

  [[nodiscard]] std::optional<Reservation> take_admitted(size_t size);

  const size_t first_limit_bytes_;
  const std::shared_ptr<Ledger> ledger_;
};

}  // namespace ffrfs
