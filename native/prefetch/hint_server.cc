#include "prefetch/hint_server.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include "io/error.h"

namespace ffrfs {
namespace {

using namespace std::string_view_literals;

constexpr size_t kPieceSize = size_t{64} << 10;
constexpr size_t kGroupMax = 512;  // hints that are added at a time
constexpr int kNoTimeout = -1;

void wake(const FileDescriptor& event) { eventfd_write(event.get(), 1); }

// Returns whether `bytes` contain an empty text. `begins_text`: they begin a text, and do not
// continue one.
bool has_end(std::string_view bytes, bool begins_text) {
  return (begins_text && bytes.starts_with('\0')) || bytes.find("\0\0"sv) != bytes.npos;
}

}  // namespace

HintServer::HintServer(Prefetcher& prefetcher, Resolve resolve, Counters& counters)
    : prefetcher_(prefetcher),
      resolve_(std::move(resolve)),
      dropped_(counters.prefetch_dropped),
      orders_(counters.page()),
      event_(std::make_shared<FileDescriptor>(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))),
      piece_(kPieceSize) {
  if (!event_->valid()) throw StorageError(errno, "eventfd", "cannot create");
  // Reserved here, because run() must not fail.
  clients_.reserve(Prefetcher::kListsMax);
  polled_.reserve(1 + Prefetcher::kListsMax);
  prefetcher_.on_room([event = event_] { wake(*event); });
}

HintServer::~HintServer() {
  stopping_ = true;
  wake(*event_);
}

void HintServer::take(FileDescriptor socket) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (!is_started_) thread_.submit([this] { run(); });
    is_started_ = true;
    arrived_.push_back(std::move(socket));
  } catch (const std::exception&) {
    return;  // out of memory, or of threads
  }
  wake(*event_);
}

void HintServer::run() {
  while (!stopping_) {
    admit();
    resume();
    listen();
    std::erase_if(clients_, [](const Client& client) { return !client.socket.valid(); });
  }
  for (Client& client : clients_) drop(client);
}

void HintServer::admit() {
  std::vector<FileDescriptor> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  for (FileDescriptor& socket : arrived) {
    try {
      const Prefetcher::ListId list = prefetcher_.open_list();
      clients_.push_back({std::move(socket), list, prefetcher_.room(list).value_or(0), {}, {}});
    } catch (const std::exception&) {  // too many clients, or lists that only wait for readers
    }
  }
}

// Continues with clients whose lists have room again. A list expires only if its client has died,
// so no process sends more.
void HintServer::resume() {
  for (Client& client : clients_) {
    if (client.room > 0) continue;
    const auto room = prefetcher_.room(client.list);
    if (!room) {
      drop(client);
      continue;
    }
    client.room = *room;
    if (client.room > 0) attempt(client, &HintServer::use_texts);
  }
}

void HintServer::listen() {
  polled_.assign(1, {event_->get(), POLLIN, 0});
  for (const Client& client : clients_) polled_.push_back(what_to_wait_for(client));
  if (poll(polled_.data(), polled_.size(), kNoTimeout) < 0) return;
  eventfd_t wakes = 0;
  eventfd_read(event_->get(), &wakes);  // before resume(), so that no wake is lost
  for (size_t i = 0; i < clients_.size(); ++i) {
    if (polled_[1 + i].revents == 0) continue;
    attempt(clients_[i], clients_[i].room > 0 ? &HintServer::receive : &HintServer::look_for_end);
  }
}

pollfd HintServer::what_to_wait_for(const Client& client) {
  // poll() always reports POLLHUP, so a client that has died and whose texts are still to be read
  // is left out.
  if (client.has_said_all && client.room == 0) return {-1, 0, 0};
  const short events = client.room > 0 ? POLLIN : POLLRDHUP;
  return {client.socket.get(), events, 0};
}

void HintServer::attempt(Client& client, void (HintServer::*step)(Client&)) {
  try {
    (this->*step)(client);
  } catch (const std::exception&) {  // out of memory
    drop(client);
  }
}

void HintServer::receive(Client& client) {
  const ssize_t size = recv(client.socket.get(), piece_.data(), piece_.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return drop(client);
  client.bytes.append(piece_.data(), static_cast<size_t>(size));
  use_texts(client);
}

// Resolves received texts into hints, as many as the list takes.
void HintServer::use_texts(Client& client) {
  std::string_view left = client.bytes;
  while (true) {
    const size_t size = left.find('\0');
    if (std::min(size, left.size()) > kTextSizeMax) return drop(client);
    if (size == 0) return finish(client);
    if (size == left.npos || client.room == 0) break;
    client.order.add(left.substr(0, size));
    if (std::optional<Hint> hint = resolve_(left.substr(0, size))) {
      group_.push_back(std::move(*hint));
    } else {
      dropped_.fetch_add(1, std::memory_order_relaxed);
    }
    left.remove_prefix(size + 1);
    if (group_.size() == std::min(client.room, kGroupMax)) flush(client);
  }
  flush(client);
  client.bytes.erase(0, client.bytes.size() - left.size());
}

void HintServer::flush(Client& client) {
  if (group_.empty()) return;
  client.room = prefetcher_.add(client.list, group_);
  group_.clear();
}

// Handles a client that died while its socket was not read. From now on its list may expire.
void HintServer::look_for_end(Client& client) {
  client.has_said_all = end_is_to_come(client);
  if (!client.has_said_all) return drop(client);
  prefetcher_.finish(client.list, true);
}

// Peeks at the bytes in the socket, so that no client makes the process hold more than a piece of
// them. The bytes end, because the client has died and sends no more.
bool HintServer::end_is_to_come(const Client& client) {
  if (has_end(client.bytes, true)) return true;
  bool begins_text = client.bytes.empty() || client.bytes.back() == '\0';
  const int start = 0;
  if (setsockopt(client.socket.get(), SOL_SOCKET, SO_PEEK_OFF, &start, sizeof start) != 0) {
    return false;
  }
  while (true) {
    const ssize_t size =
        recv(client.socket.get(), piece_.data(), piece_.size(), MSG_DONTWAIT | MSG_PEEK);
    if (size <= 0) return false;
    const std::string_view piece(piece_.data(), static_cast<size_t>(size));
    if (has_end(piece, begins_text)) return true;
    begins_text = piece.back() == '\0';
  }
}

void HintServer::finish(Client& client) {
  flush(client);
  orders_.keep(client.order, true);
  prefetcher_.finish(client.list);
  client.socket.reset();
}

void HintServer::drop(Client& client) {
  group_.clear();
  orders_.keep(client.order, false);
  prefetcher_.drop(client.list);
  client.socket.reset();
}

}  // namespace ffrfs
