#include "fetch/budget.h"

#include <list>

namespace ffrfs {

// The state that reservations share with their budget, which they may outlive.
struct Reservation::Ledger {
  struct Waiting {
    size_t size;
    Budget::Start start;
  };

  mutable std::mutex mutex;  // guards all below
  size_t limit_bytes = 0;
  std::array<size_t, kAccountCount> used{};
  size_t admitted = 0;  // reservations in flight that came through admit()
  std::list<Waiting> waiting;
  std::function<void()> on_room;
  Counters* counters = nullptr;  // exported counters; nullptr once the budget is gone

  [[nodiscard]] size_t limit(Account account) const { return share_of(account, limit_bytes); }

  // add() and the functions below need the lock.
  void add(Account account, size_t size) {
    used[static_cast<size_t>(account)] += size;
    show(account);
  }
  void move(Account from, size_t from_size, Account to, size_t to_size) {
    used[static_cast<size_t>(to)] += to_size;
    used[static_cast<size_t>(from)] -= from_size;
    show(to);
    show(from);
    if (from == Account::kInFlight) tell_of_room();
  }
  void tell_of_room() const {
    if (!waiting.empty() && on_room) on_room();
  }
  void show(Account account) const {
    if (counters == nullptr) return;
    const size_t now = used[static_cast<size_t>(account)];
    switch (account) {
      case Account::kInFlight:
        counters->bytes_in_flight.store(now, std::memory_order_relaxed);
        break;
      case Account::kAhead: counters->bytes_prefetched.store(now, std::memory_order_relaxed); break;
      case Account::kKept: counters->bytes_kept.store(now, std::memory_order_relaxed); break;
      case Account::kMetadata:
        counters->bytes_metadata.store(now, std::memory_order_relaxed);
        break;
      case Account::kSpare: break;
    }
  }
};

void Reservation::swap(Reservation& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(account_, other.account_);
  std::swap(size_, other.size_);
  std::swap(is_admitted_, other.is_admitted_);
}

void Reservation::change(size_t size, Account account) {
  if (!ledger_ || (size == size_ && account == account_)) return;
  const std::lock_guard lock(ledger_->mutex);
  // Before move(), because on_room() may look at the number of admitted reservations.
  if (is_admitted_ && (size == 0 || account != Account::kInFlight)) {
    is_admitted_ = false;
    --ledger_->admitted;
  }
  ledger_->move(account_, size_, account, size);
  size_ = size;
  account_ = account;
}

void Reservation::settle() {
  if (!is_admitted_) return;
  const std::lock_guard lock(ledger_->mutex);
  is_admitted_ = false;
  --ledger_->admitted;
  ledger_->tell_of_room();
}

Budget::Budget(size_t limit_bytes, Counters& counters)
    : first_limit_bytes_(limit_bytes), ledger_(std::make_shared<Ledger>()) {
  ledger_->limit_bytes = limit_bytes;
  ledger_->counters = &counters;
}

Budget::~Budget() {
  std::list<Ledger::Waiting> waiting;  // destroyed after the lock is released; a deque allocates
  std::function<void()> on_room;
  const std::lock_guard lock(ledger_->mutex);
  ledger_->counters = nullptr;
  waiting.swap(ledger_->waiting);
  on_room.swap(ledger_->on_room);
}

size_t Budget::used(Account account) const {
  const std::lock_guard lock(ledger_->mutex);
  return ledger_->used[static_cast<size_t>(account)];
}

size_t Budget::limit(Account account) const {
  const std::lock_guard lock(ledger_->mutex);
  return ledger_->limit(account);
}

void Budget::set_limit(size_t limit_bytes) {
  {
    const std::lock_guard lock(ledger_->mutex);
    ledger_->limit_bytes = limit_bytes;
  }
  admit_waiting();
}

Reservation Budget::reserve(Account account, size_t size) {
  const std::lock_guard lock(ledger_->mutex);
  ledger_->add(account, size);
  return Reservation(ledger_, account, size, false);
}

std::optional<Reservation> Budget::try_reserve(Account account, size_t size, double part) {
  const std::lock_guard lock(ledger_->mutex);
  const auto limit = static_cast<size_t>(static_cast<double>(ledger_->limit(account)) * part);
  if (ledger_->used[static_cast<size_t>(account)] + size > limit) return std::nullopt;
  ledger_->add(account, size);
  return Reservation(ledger_, account, size, false);
}

// Needs the lock. Returns nullopt if the request has to wait.
std::optional<Reservation> Budget::take_admitted(size_t size) {
  constexpr auto account = Account::kInFlight;
  const size_t used = ledger_->used[static_cast<size_t>(account)];
  if (ledger_->admitted > 0 && used + size > ledger_->limit(account)) return std::nullopt;
  ++ledger_->admitted;
  ledger_->add(account, size);
  return Reservation(ledger_, account, size, true);
}

void Budget::admit(size_t size, Start start) {
  std::optional<Reservation> admitted;
  {
    const std::lock_guard lock(ledger_->mutex);
    if (ledger_->waiting.empty()) admitted = take_admitted(size);
    if (!admitted) {
      ledger_->waiting.push_back({size, std::move(start)});
      return;
    }
  }
  start(std::move(*admitted));
}

void Budget::admit_waiting() {
  while (true) {
    std::optional<Reservation> admitted;
    Start start;
    {
      const std::lock_guard lock(ledger_->mutex);
      if (ledger_->waiting.empty()) return;
      admitted = take_admitted(ledger_->waiting.front().size);
      if (!admitted) return;
      start = std::move(ledger_->waiting.front().start);
      ledger_->waiting.pop_front();
    }
    start(std::move(*admitted));
  }
}

bool Budget::has_waiting() const {
  const std::lock_guard lock(ledger_->mutex);
  return !ledger_->waiting.empty();
}

void Budget::set_on_room(std::function<void()> on_room) {
  const std::lock_guard lock(ledger_->mutex);
  ledger_->on_room = std::move(on_room);
}

}  // namespace ffrfs
