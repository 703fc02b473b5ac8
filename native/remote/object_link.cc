#include "remote/object_link.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "remote/link_request.h"
#include "remote/remote_error.h"

namespace ffrfs::remote {

ObjectLink::ObjectLink(FileDescriptor link, std::chrono::milliseconds timeout, NewLink new_link)
    : timeout_(timeout),
      new_link_(std::move(new_link)),
      event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      socket_(std::move(link)),
      memory_(LinkSocket::kMessageSizeMax) {
  if (!event_.valid()) throw StorageError(errno, "eventfd", "cannot create");
  thread_ = std::thread([this] { run(); });
}

ObjectLink::~ObjectLink() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake();
  thread_.join();
  Finished finished;
  fail_all(std::make_exception_ptr(RemoteError("RemoteError", "", "the link was closed")),
           finished);
  for (const auto& [done, error] : finished) done(error);
}

// Requests by other threads.

ObjectLink::Opening ObjectLink::start_open(const std::string& url) {
  auto promise = std::make_shared<std::promise<ObjectPtr>>();
  Opening opening{.coming = promise->get_future().share(),
                  .settled = std::make_shared<std::atomic<bool>>(false)};
  const std::lock_guard lock(mutex_);
  const uint32_t number = take_number();
  known_[number] = {.state = Known::State::kOpening, .url = url, .name = shown_url(url)};
  add({.ask = Ask::kOpen,
       .number = number,
       .url = url,
       .opened = std::move(promise),
       .settled = opening.settled});
  flush_from_outside();
  return opening;
}

std::vector<std::string> ObjectLink::list(const std::string& url) {
  auto promise = std::make_shared<std::promise<std::vector<std::string>>>();
  auto future = promise->get_future().share();
  {
    const std::lock_guard lock(mutex_);
    add({.ask = Ask::kList, .done = [promise](const std::exception_ptr& error) {
      promise->set_exception(error);
    }, .url = url, .take_list = [promise](std::vector<std::string> urls) {
      promise->set_value(std::move(urls));
    }});
    flush_from_outside();
  }
  return wait_for_answer(future);
}

ObjectLink::ObjectPtr ObjectLink::adopt(const RemoteObject& known,
                                        std::shared_ptr<const CachedFiles> files) {
  const std::lock_guard lock(mutex_);
  const uint32_t number = take_number();
  auto object = std::make_shared<RemoteObject>(number, known.url(), known.facts(), std::move(files),
                                               keeps_pages());
  known_[number] = {.url = known.url(), .name = known.name(), .object = object};
  return object;
}

void ObjectLink::close(const RemoteObject& object) {
  Finished finished;
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(object.number());
    if (found == known_.end()) return;
    // If the socket is full or closed, the fetcher keeps the object open until the link ends.
    const bool is_open = socket_.valid() && found->second.state != Known::State::kClosed;
    if (!is_open ||
        socket_.send(make_message(Ask::kClose, object.number(), 0)) == LinkSocket::Sent::kYes) {
      closed_.push_back(object.number());
    }
    const auto closed = std::make_exception_ptr(
        RemoteError("RemoteError", found->second.name, "was closed meanwhile"));
    known_.erase(found);
    for (auto place = requests_.begin(); place != requests_.end();) {
      const auto next = std::next(place);
      if (place->second.ask != Ask::kList && place->second.number == object.number()) {
        if (place->second.is_sent) --sent_count_;
        if (place->second.done) finished.emplace_back(std::move(place->second.done), closed);
        requests_.erase(place);
      }
      place = next;
    }
  }
  for (const auto& [done, error] : finished) done(error);
}

void ObjectLink::want(const ObjectPtr& object, Ask ask, BlockRange range, Done done) {
  object->note_wanted(range);
  const std::lock_guard lock(mutex_);
  add({.ask = ask, .number = object->number(), .range = range, .done = std::move(done)});
  flush_from_outside();
}

void ObjectLink::note_used() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_used_, true)) return;
  }
  wake();
}

void ObjectLink::replace(FileDescriptor link) {
  {
    const std::lock_guard lock(mutex_);
    next_link_ = std::move(link);
  }
  wake();
}

// Sends messages. These functions need the lock.

uint32_t ObjectLink::take_number() {
  if (next_object_ < kNumbersFresh || closed_.empty()) {
    if (next_object_ < kNumberMax) return next_object_++;
    throw StorageError(EMFILE, "", "too many objects are open");
  }
  const uint32_t number = closed_.front();
  closed_.pop_front();
  return number;
}

uint64_t ObjectLink::add(Request request) {
  const uint64_t id = next_id_++;
  const bool is_first = requests_.empty();
  request.deadline = Clock::now() + timeout_;
  const auto found = requests_.emplace(id, std::move(request)).first;
  queue_of(found->second).push_back(id);
  // Wakes the link's thread: there is a first deadline, or a link is missing.
  if (is_first || !socket_.valid()) wake();
  return id;
}

// Leaves it to the link's thread to wait until the socket takes more.
void ObjectLink::flush_from_outside() {
  if (is_full_) return;
  flush();
  if (is_full_) wake();
}

void ObjectLink::flush() {
  while (socket_.valid() && !is_full_ && sent_count_ < kSentMax) {
    auto& queue = !urgent_.empty() ? urgent_ : ahead_;
    if (queue.empty()) return;
    const uint64_t id = queue.front();
    queue.pop_front();
    const auto found = requests_.find(id);
    if (found == requests_.end() || !is_ready(id, found->second)) continue;
    switch (socket_.send(message_of(id, found->second))) {
      case LinkSocket::Sent::kYes:
        found->second.is_sent = true;
        ++sent_count_;
        break;
      case LinkSocket::Sent::kFull:
        is_full_ = true;
        queue.push_front(id);
        break;
      case LinkSocket::Sent::kEnded:  // the link's thread will notice this, too
        queue.push_front(id);
        return;
    }
  }
}

std::deque<uint64_t>& ObjectLink::queue_of(const Request& request) {
  return request.ask == Ask::kSoon ? ahead_ : urgent_;
}

// Returns false if the request has to wait until its object is open.
bool ObjectLink::is_ready(uint64_t id, Request& request) {
  if (request.is_sent) return false;
  if (request.ask == Ask::kOpen || request.ask == Ask::kList) return true;
  Known& known = known_.at(request.number);  // close() erases its requests, too
  if (known.state == Known::State::kOpen) return true;
  known.parked.push_back(id);
  if (known.state == Known::State::kClosed) reopen(request.number, known);
  return false;
}

void ObjectLink::reopen(uint32_t number, Known& known) {
  known.state = Known::State::kOpening;
  add({.ask = Ask::kOpen, .number = number, .url = known.url});
}

Message ObjectLink::message_of(uint64_t id, const Request& request) const {
  switch (request.ask) {
    case Ask::kOpen: {
      const auto known = known_.find(request.number);
      const bool is_known = known != known_.end() && known->second.object != nullptr;
      return make_text(Ask::kOpen, request.number, id, request.url,
                       is_known ? known->second.object->facts().pin : "");
    }
    case Ask::kList: return make_text(Ask::kList, 0, id, request.url);
    default: return make_range(request.ask, request.number, id, request.range);
  }
}

void ObjectLink::send_used() {
  const auto now = Clock::now();
  if (!has_used_ || !socket_.valid() || now - used_at_ < kUsedInterval) return;
  has_used_ = false;
  used_at_ = now;
  for (const auto& [number, known] : known_) {
    if (!known.object) continue;
    // Every object is asked, because an object calls note_used() only once until its take_used().
    for (const BlockRange range : known.object->take_used()) {
      if (known.state != Known::State::kOpen) break;
      // Only advice, so a message that the socket refuses is not repeated.
      (void)socket_.send(make_range(Ask::kUsed, number, 0, range));
    }
  }
}

}  // namespace ffrfs::remote
