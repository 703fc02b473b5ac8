// The thread of an ObjectLink: handles answers and deadlines, and replaces a socket that has ended.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>

#include "remote/link_request.h"
#include "remote/object_link.h"
#include "remote/remote_error.h"

namespace ffrfs::remote {

void ObjectLink::run() {
  while (true) {
    int timeout_ms = 0;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
      timeout_ms = poll_timeout_ms();
    }
    wait_for_work(timeout_ms);
    Finished finished;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
      if (next_link_.valid()) {
        end_link();
        socket_ = LinkSocket(std::move(next_link_));
        broken_ = nullptr;
        // Even objects without waiting requests: the new fetcher may have to fill their caches.
        for (auto& [number, known] : known_) {
          if (known.object && known.state == Known::State::kClosed) reopen(number, known);
        }
      }
      receive(finished);
      // The worker cannot make a link by itself.
      if (broken_ && !new_link_) fail_all(broken_, finished);
      expire(finished);
      send_used();
      flush();
    }
    renew(finished);
    for (const auto& [done, error] : finished) done(error);
  }
}

// Needs the lock.
int ObjectLink::poll_timeout_ms() const {
  std::optional<Clock::time_point> next;
  const auto consider = [&next](Clock::time_point time) {
    if (!next || time < *next) next = time;
  };
  if (!requests_.empty()) consider(requests_.begin()->second.deadline);
  if (has_used_ && socket_.valid()) consider(used_at_ + kUsedInterval);
  if (!requests_.empty() && !socket_.valid() && new_link_) consider(renewed_at_ + kNewLinkInterval);
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
}

void ObjectLink::wait_for_work(int timeout_ms) {
  std::array<pollfd, 2> waiters{{{event_.get(), POLLIN, 0}, {-1, POLLIN, 0}}};
  {
    // No other thread closes the socket.
    const std::lock_guard lock(mutex_);
    if (socket_.valid()) waiters[1].fd = socket_.fd();
    if (is_full_) waiters[1].events |= POLLOUT;
  }
  ::poll(waiters.data(), waiters.size(), timeout_ms);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_.get(), &count, sizeof count);
  if ((waiters[1].revents & ~POLLIN) != 0) {
    const std::lock_guard lock(mutex_);
    is_full_ = false;
  }
}

void ObjectLink::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

// All functions below need the lock.

void ObjectLink::receive(Finished& finished) {
  while (socket_.valid()) {
    Answer answer;
    switch (socket_.receive(memory_, answer)) {
      case LinkSocket::Got::kAnswer:
        if (take(std::move(answer), finished)) break;
        [[fallthrough]];
      case LinkSocket::Got::kNonsense:
        end_link();
        broken_ = std::make_exception_ptr(
            RemoteError("RemoteError", "", "the fetcher has answered no request of this process"));
        fail_all(broken_, finished);
        return;
      case LinkSocket::Got::kNothing: return;
      case LinkSocket::Got::kEnd: end_link(); return;
    }
  }
}

// Returns false if no such answer was asked for.
bool ObjectLink::take(Answer answer, Finished& finished) {
  if (answer.kind == Told::kMoved) {
    take_moved(std::move(answer));
    return true;
  }
  const auto place = requests_.find(answer.id);
  // A late answer: its request has ended, and was erased.
  if (place == requests_.end()) return answer.id < next_id_;
  Request& request = place->second;
  if (!request.is_sent || (request.ask != Ask::kList && request.number != answer.object)) {
    return false;
  }
  if (answer.kind == Told::kListed) return take_listed(place, std::move(answer), finished);
  const bool is_blocks = request.ask != Ask::kOpen && request.ask != Ask::kList;
  const bool fits = answer.kind == Told::kFailed ||
                    (answer.kind == Told::kOpened && request.ask == Ask::kOpen) ||
                    (answer.kind == Told::kReady && is_blocks);
  if (!fits) return false;
  Request taken = std::move(request);
  requests_.erase(place);
  --sent_count_;
  if (answer.kind == Told::kOpened) {
    take_opened(std::move(taken), std::move(answer), finished);
  } else if (answer.kind == Told::kReady) {
    if (taken.done) finished.emplace_back(std::move(taken.done), nullptr);
  } else {
    std::string line = std::move(answer.line);
    std::ranges::replace_if(line, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    const auto error =
        std::make_exception_ptr(RemoteError(answer.error_class, name_of(taken), line, !is_blocks));
    const uint32_t number = taken.number;
    const auto known = known_.find(number);
    const bool is_free = taken.ask == Ask::kOpen && known != known_.end() && !known->second.object;
    fail(std::move(taken), error, finished);
    if (is_free) closed_.push_back(number);
  }
  return true;
}

// Returns what a message calls the object or the directory.
std::string ObjectLink::name_of(const Request& request) const {
  const auto known = known_.find(request.number);
  const bool is_object = request.ask != Ask::kList && known != known_.end();
  return is_object ? known->second.name : shown_url(request.url);
}

void ObjectLink::take_opened(Request request, Answer answer, Finished& finished) {
  const auto found = known_.find(request.number);
  if (found == known_.end()) return;  // closed meanwhile
  Known& known = found->second;
  try {
    if (!answer.data.valid()) throw StorageError(EMFILE, known.name, "cannot open");
    const ObjectFacts facts{.size = answer.size,
                            .mtime_ns = answer.mtime_ns,
                            .block_size = answer.block_size,
                            .pin = std::move(answer.pin)};
    if (facts.size > INT64_MAX) throw RemoteError("RemoteError", known.name, "has no sane size");
    if (known.object && facts != known.object->facts()) {
      throw RemoteError("ChangedAtOriginError", known.name,
                        "changed at its origin; open or mount it anew");
    }
    auto files = std::make_shared<const CachedFiles>(std::move(answer.data),
                                                     std::move(answer.state), facts, known.name);
    if (!known.object) {
      known.object = std::make_shared<RemoteObject>(found->first, known.url, facts,
                                                    std::move(files), keeps_pages());
    } else if (!known.object->files()->is_same(*files)) {
      known.object->set_files(std::move(files));
    }
  } catch (...) {
    // The fetcher has opened it, and takes its number for no other until it is closed.
    const uint32_t number = request.number;
    const bool is_new = known.object == nullptr;
    fail(std::move(request), std::current_exception(), finished);
    const auto sent = socket_.send(make_message(Ask::kClose, number, 0));
    if (is_new && sent == LinkSocket::Sent::kYes) closed_.push_back(number);
    return;
  }
  known.state = Known::State::kOpen;
  for (const uint64_t id : known.parked) {
    const auto waiting = requests_.find(id);
    if (waiting != requests_.end()) queue_of(waiting->second).push_back(id);
  }
  known.parked.clear();
  if (request.opened) {
    finished.emplace_back(
        [this, opened = std::move(request.opened), object = known.object,
         settled = std::move(request.settled)](const std::exception_ptr&) {
      opened->set_value(object);
      if (settled->exchange(true)) close(*object);
    },
        nullptr);
  }
}

bool ObjectLink::take_listed(Requests::iterator place, Answer answer, Finished& finished) {
  Request& request = place->second;
  if (request.ask != Ask::kList || request.listed.size() + answer.urls.size() > kListedMax) {
    return false;
  }
  std::ranges::move(answer.urls, std::back_inserter(request.listed));
  if (answer.has_more) return true;
  finished.emplace_back([take = std::move(request.take_list), urls = std::move(request.listed)](
                            const std::exception_ptr&) { take(urls); },
                        nullptr);
  requests_.erase(place);
  --sent_count_;
  return true;
}

void ObjectLink::take_moved(Answer answer) {
  const auto found = known_.find(answer.object);
  if (found == known_.end() || !found->second.object) return;
  RemoteObject& object = *found->second.object;
  if (!answer.data.valid()) return open_anew(found->first, found->second);
  try {
    object.set_files(std::make_shared<const CachedFiles>(
        std::move(answer.data), std::move(answer.state), object.facts(), object.name()));
  } catch (const StorageError&) {
    // The object keeps its present files.
  }
}

// Closes the object and opens it again: no descriptor was free for the files that the fetcher fills
// from now on. Its requests are sent again, because the fetcher answers none of a closed object.
void ObjectLink::open_anew(uint32_t number, Known& known) {
  if (known.state != Known::State::kOpen) return;
  if (socket_.send(make_message(Ask::kClose, number, 0)) != LinkSocket::Sent::kYes) return;
  reopen(number, known);
  for (auto place = requests_.begin(); place != requests_.end();) {
    const auto next = std::next(place);
    Request& request = place->second;
    if (request.is_sent && request.ask != Ask::kList && request.number == number) {
      request.is_sent = false;
      --sent_count_;
      add(std::move(request));  // by another id, as the old one may still be answered
      requests_.erase(place);
    }
    place = next;
  }
}

void ObjectLink::fail(Request request, const std::exception_ptr& error, Finished& finished) {
  if (request.ask == Ask::kOpen) {
    const auto found = known_.find(request.number);
    if (found != known_.end()) {
      found->second.state = Known::State::kClosed;
      for (const uint64_t id : std::exchange(found->second.parked, {})) {
        const auto waiting = requests_.find(id);
        if (waiting == requests_.end()) continue;
        if (waiting->second.done) finished.emplace_back(std::move(waiting->second.done), error);
        requests_.erase(waiting);
      }
      if (!found->second.object) known_.erase(found);
    }
  }
  if (request.opened) {
    finished.emplace_back([opened = std::move(request.opened)](const std::exception_ptr& why) {
      opened->set_exception(why);
    }, error);
  }
  if (request.done) finished.emplace_back(std::move(request.done), error);
}

void ObjectLink::fail_all(const std::exception_ptr& error, Finished& finished) {
  while (!requests_.empty()) {
    Request request = std::move(requests_.begin()->second);
    requests_.erase(requests_.begin());
    fail(std::move(request), error, finished);
  }
  urgent_.clear();
  ahead_.clear();
  sent_count_ = 0;
}

void ObjectLink::expire(Finished& finished) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(timeout_).count();
  while (!requests_.empty() && requests_.begin()->second.deadline <= now) {
    const uint64_t id = requests_.begin()->first;
    Request request = std::move(requests_.begin()->second);
    requests_.erase(requests_.begin());
    if (request.is_sent) {
      --sent_count_;
      if (socket_.valid()) (void)socket_.send(make_message(Ask::kCancel, request.number, id));
    }
    const auto error = std::make_exception_ptr(timeout_error(name_of(request), seconds));
    fail(std::move(request), error, finished);
  }
}

// Requests that callers wait for are queued again, for the next link.
void ObjectLink::end_link() {
  socket_.close();
  is_full_ = false;
  sent_count_ = 0;
  urgent_.clear();
  ahead_.clear();
  for (auto& [number, known] : known_) {
    known.parked.clear();
    known.state = Known::State::kClosed;
  }
  for (auto place = requests_.begin(); place != requests_.end();) {
    Request& request = place->second;
    request.is_sent = false;
    const bool is_reopening = request.ask == Ask::kOpen && !request.opened;
    if (is_reopening) {  // a request that needs the object opens it again
      place = requests_.erase(place);
      continue;
    }
    if (request.ask == Ask::kOpen) known_.at(request.number).state = Known::State::kOpening;
    request.listed.clear();
    queue_of(request).push_back(place->first);
    ++place;
  }
}

// Called without the lock, because making the link may take a while.
void ObjectLink::renew(Finished& finished) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (!new_link_ || socket_.valid() || requests_.empty() ||
        now - renewed_at_ < kNewLinkInterval) {
      return;
    }
    renewed_at_ = now;
  }
  FileDescriptor link;
  std::exception_ptr error;
  try {
    link = new_link_();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (error) return fail_all(error, finished);
  socket_ = LinkSocket(std::move(link));
  flush();
}

}  // namespace ffrfs::remote
