// The talk with the fetcher: what is asked, and who waits for which answer.
//
//   any thread ── want() ──► queue ──► the socket ──► fetcher
//   a caller's callback ◄── our thread ◄── answers, deadlines
//
// A fetcher may end at any time, also killed. Then another link comes, by replace() or from
// `new_link`: all objects are opened there with their pins, and what somebody waits for is asked
// for again. Those who wait see a delay; each has its deadline from the beginning.
//
// Any thread, but for what is said of open() and list(). Callbacks run on our thread (or in
// close()), without a lock, and do not wait. Does not survive fork() (see io/process_local.h).
// Not here: messages (link_message.h); reading (remote_file.h).

#pragma once

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
#include "remote/link_message.h"
#include "remote/remote_object.h"

namespace ffrfs::remote {

// Called by those who wait for an answer, ten times a second; what it throws ends the wait. For
// Ctrl-C, where a program is waiting.
void set_wait_check(void (*check)());
void check_wait();

// What a callback brings. Throws what it brings instead, and what the wait check throws.
template <typename T>
T wait_for_answer(const std::shared_future<T>& coming) {
  constexpr auto kCheckInterval = std::chrono::milliseconds(100);
  while (coming.wait_for(kCheckInterval) != std::future_status::ready) check_wait();
  return coming.get();
}

class FetchLink {
 public:
  using Clock = std::chrono::steady_clock;
  using ObjectPtr = std::shared_ptr<RemoteObject>;
  // Without an error: the blocks are there.
  using Done = std::function<void(const std::exception_ptr& error)>;
  // An end of a link to a fetcher that runs; may wait, and throw why there is none.
  using NewLink = std::function<FileDescriptor()>;

  // Asks for another when `link` ends and somebody waits. Without `new_link` we are a mount's
  // worker: replace() brings it, and what was read leaves the page cache, since the kernel keeps
  // the files of a mount.
  FetchLink(FileDescriptor link, std::chrono::milliseconds timeout, NewLink new_link = nullptr);
  ~FetchLink();  // those who wait get an error
  FetchLink(const FetchLink&) = delete;
  FetchLink& operator=(const FetchLink&) = delete;

  // Waits for the answer. Throws RemoteError. Not on our thread.
  [[nodiscard]] ObjectPtr open(const std::string& url) { return wait_for_answer(start_open(url)); }
  [[nodiscard]] std::shared_future<ObjectPtr> start_open(const std::string& url);
  // The URLs of what is directly below one that ends in "/"; as open().
  [[nodiscard]] std::vector<std::string> list(const std::string& url);
  // An object that another link has opened, as a parent process had.
  [[nodiscard]] ObjectPtr adopt(const RemoteObject& known,
                                std::shared_ptr<const CachedFiles> files);
  // Nobody uses it any more.
  void close(const RemoteObject& object);

  // `ask`: kWant, kSoon or kAgain; at most BlockRange::kCountMax blocks. `done` always runs.
  void want(const ObjectPtr& object, Ask ask, BlockRange range, Done done);
  // Blocks of it were noted as used, the first for a while.
  void note_used();

  void replace(FileDescriptor link);

 private:

  // Open requests of a link; the protocol allows 4096.
  static constexpr size_t kSentMax = 3072;
  static constexpr auto kUsedInterval = std::chrono::seconds(1);
  static constexpr auto kNewLinkInterval = std::chrono::milliseconds(250);
  // Numbers of closed objects are used again from here on: the fetcher takes no higher ones.
  static constexpr uint32_t kNumberMax = 65536;
  static constexpr uint32_t kNumbersFresh = 32768;
  static constexpr size_t kListedMax = 1'000'000;

  struct Request;
  struct Known;
  using Requests = std::map<uint64_t, Request>;  // in the order of their deadlines
  // Callbacks to run without the lock.
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
  void take_opened(Request request, Answer answer, Finished& finished);
  [[nodiscard]] bool take_listed(Requests::iterator place, Answer answer, Finished& finished);
  void take_moved(Answer answer);
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
  std::exception_ptr broken_;  // what the last link was ended for, until there is another
  bool is_full_ = false;  // the socket takes no more for now
  uint64_t next_id_ = 1;
  uint32_t next_object_ = 0;
  std::deque<uint32_t> closed_;  // numbers that may be used again
  size_t sent_count_ = 0;
  Requests requests_;
  std::deque<uint64_t> urgent_;  // to be sent, of requests_ or no longer
  std::deque<uint64_t> ahead_;
  std::map<uint32_t, Known> known_;
  bool has_used_ = false;
  Clock::time_point used_at_{};
  Clock::time_point renewed_at_{};
  std::vector<std::byte> memory_;  // our thread's
  std::thread thread_;
};

}  // namespace ffrfs::remote
