// Talks to the fetcher: sends requests, and hands each answer to the caller that waits for it.
//
//   any thread ── want() ──► queue ──► the socket ──► fetcher
//   a caller's callback ◄── the link's thread ◄── answers, deadlines
//
// The fetcher may end at any time, or be killed. Then the link gets a new socket, by replace() or
// from `new_link`, opens all objects again with their pins, and repeats all requests that callers
// wait for. Callers see a delay; their deadlines do not change.
//
// Thread-safe, except as list() says. Callbacks run on the link's thread (or in close()),
// without a lock, and must not wait. Does not survive fork() (see io/process_local.h).
// Not here: messages (link_message.h); reading (remote_file.h).

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/file_descriptor.h"
#include "io/wait_check.h"
#include "remote/link_message.h"
#include "remote/remote_object.h"

namespace ffrfs::remote {

// Waits for a callback's result. Throws the callback's error, or Interrupted.
template <typename T> T wait_for_answer(const std::shared_future<T>& coming) {
  while (coming.wait_for(kWaitCheckInterval) != std::future_status::ready) check_wait();
  return coming.get();
}

class ObjectLink {
 public:
  using Clock = std::chrono::steady_clock;
  using ObjectPtr = std::shared_ptr<RemoteObject>;
  // Called without an error when the blocks are cached.
  using Done = std::function<void(const std::exception_ptr& error)>;
  // Returns a socket to a running fetcher; may wait, and throws if there is none.
  using NewLink = std::function<FileDescriptor()>;

  // Calls `new_link` when the socket ends and callers wait. Without `new_link` this is the link of
  // a mount's worker: the daemon calls replace(), and blocks leave the page cache once they were
  // read, because the kernel caches the mount's files.
  ObjectLink(FileDescriptor link, std::chrono::milliseconds timeout, NewLink new_link = nullptr);
  ~ObjectLink();  // callers that wait get an error
  ObjectLink(const ObjectLink&) = delete;
  ObjectLink& operator=(const ObjectLink&) = delete;

  // An object that is being opened. `settled` is set by the link when the object has come, and by a
  // caller that gives up; the second of the two closes the object.
  struct Opening {
    std::shared_future<ObjectPtr> coming{};  // throws RemoteError
    std::shared_ptr<std::atomic<bool>> settled{};
  };
  [[nodiscard]] Opening start_open(const std::string& url);
  // Returns the URLs directly below one that ends in "/", and waits for them. Throws RemoteError.
  // Must not run on the link's thread.
  [[nodiscard]] std::vector<std::string> list(const std::string& url);
  // Adds an object that another link has opened, e.g. in the parent process.
  [[nodiscard]] ObjectPtr adopt(const RemoteObject& known,
                                std::shared_ptr<const CachedFiles> files);
  // Closes an object that has no users any more.
  void close(const RemoteObject& object);

  // Requests blocks, at most BlockRange::kCountMax. `ask`: kWant, kSoon or kAgain. `done` always
  // runs.
  void want(const ObjectPtr& object, Ask ask, BlockRange range, Done done);
  // Says that an object has newly used blocks, the first for a while.
  void note_used();

  void replace(FileDescriptor link);

 private:
  // The most requests that are sent and unanswered; the protocol allows 4096.
  static constexpr size_t kSentMax = 3072;
  static constexpr auto kUsedInterval = std::chrono::seconds(1);
  static constexpr auto kNewLinkInterval = std::chrono::milliseconds(250);
  // From kNumbersFresh on, numbers of closed objects are reused; the fetcher accepts none above
  // kNumberMax.
  static constexpr uint32_t kNumberMax = 65536;
  static constexpr uint32_t kNumbersFresh = 32768;
  static constexpr size_t kListedMax = 1'000'000;

  struct Request;
  struct Known;
  using Requests = std::map<uint64_t, Request>;  // ordered by deadline
  // Callbacks that are to run without the lock.
  using Finished = std::vector<std::pair<Done, std::exception_ptr>>;

  [[nodiscard]] bool keeps_pages() const { return new_link_ != nullptr; }
  void run();
  [[nodiscard]] int poll_timeout_ms() const;
  void wait_for_work(int timeout_ms);
  void wake() const;

  uint64_t add(Request request);
  [[nodiscard]] uint32_t take_number();
  void flush();
  void flush_from_outside();
  [[nodiscard]] std::deque<uint64_t>& queue_of(const Request& request);
  [[nodiscard]] bool is_ready(uint64_t id, Request& request);
  [[nodiscard]] Message message_of(uint64_t id, const Request& request) const;
  void reopen(uint32_t number, Known& known);

  void receive(Finished& finished);
  [[nodiscard]] bool take(Answer answer, Finished& finished);
  [[nodiscard]] std::string name_of(const Request& request) const;
  void take_opened(Request request, Answer answer, Finished& finished);
  [[nodiscard]] bool take_listed(Requests::iterator place, Answer answer, Finished& finished);
  void take_moved(Answer answer);
  void open_anew(uint32_t number, Known& known);
  void fail(Request request, const std::exception_ptr& error, Finished& finished);
  void fail_all(const std::exception_ptr& error, Finished& finished);
  void expire(Finished& finished);
  void end_link();
  void renew(Finished& finished);
  void send_used();

  const std::chrono::milliseconds timeout_;
  const NewLink new_link_;
  const FileDescriptor event_;

  mutable std::mutex mutex_;  // guards all below but the thread
  LinkSocket socket_;
  FileDescriptor next_link_;
  bool is_stopping_ = false;
  std::exception_ptr broken_;  // why the last link ended, until there is another
  bool is_full_ = false;  // the socket takes no more for now
  uint64_t next_id_ = 1;
  uint32_t next_object_ = 0;
  std::deque<uint32_t> closed_;  // numbers that may be reused
  size_t sent_count_ = 0;
  Requests requests_;
  std::deque<uint64_t> urgent_;  // ids to be sent; their requests may have ended
  std::deque<uint64_t> ahead_;
  std::map<uint32_t, Known> known_;
  bool has_used_ = false;
  Clock::time_point used_at_{};
  Clock::time_point renewed_at_{};
  std::vector<std::byte> memory_;  // used by the link's thread only
  std::thread thread_;
};

}  // namespace ffrfs::remote
