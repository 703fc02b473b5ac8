// Receives hints from programs that announce their reads, over sockets.
//
//   socket ─► pieces ─► texts, a zero byte after each ─► hints ─► the client's list
//
// An empty text ends the hints: the list is kept. A client that closes its socket without it has
// died: its list is dropped. Nothing is sent back. While a list is full its socket is not read, so
// the client has to wait; its death is noticed even then. If its socket holds an empty text, the
// socket is kept until the list has room for the rest, or expires.
//
// All input is hostile. At most a piece and a text of each client are held.
//
// take() is thread-safe. Everything else runs on one thread, which starts with the first client; it
// holds no lock while it resolves or adds, and waits only for sockets and for pages of an index.
// Does not survive fork() (see io/process_local.h).
//
// Not here: what happens to the lists (prefetcher.h), how a text is resolved (volume.h).

#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_descriptor.h"
#include "io/thread_pool.h"
#include "prefetch/hint.h"
#include "prefetch/hint_orders.h"
#include "prefetch/prefetcher.h"
#include "stats/counters.h"

namespace ffrfs {

class HintServer {
 public:
  // Returns nullopt if the text names no file. Must not wait.
  using Resolve = std::function<std::optional<Hint>(std::string_view text)>;

  static constexpr size_t kTextSizeMax = 8192;

  // Counts in `counters` the texts that name no file, and keeps there in which order the hints of
  // each client came. The server sets the prefetcher's on_room().
  // Throws StorageError.
  HintServer(Prefetcher& prefetcher, Resolve resolve, Counters& counters);
  ~HintServer();  // drops the lists of all clients that have not ended
  HintServer(const HintServer&) = delete;
  HintServer& operator=(const HintServer&) = delete;

  // Listens to a connected Unix stream socket. Closes it when the client ends its hints or breaks
  // the rules; at once if the prefetcher has no list for it.
  void take(FileDescriptor socket) noexcept;

 private:
  struct Client {
    FileDescriptor socket;  // invalid: the client has ended
    Prefetcher::ListId list;
    size_t room;  // of the list; 0: the socket is not read
    std::string bytes;  // received and not used yet, from the beginning of a text
    HintOrder order;
    bool has_said_all = false;  // died with its socket unread; the socket holds the end
  };

  void run();
  void admit();
  void resume();
  void listen();
  [[nodiscard]] static pollfd what_to_wait_for(const Client& client);
  void attempt(Client& client, void (HintServer::*step)(Client&));
  void receive(Client& client);
  void use_texts(Client& client);
  void flush(Client& client);
  void look_for_end(Client& client);
  [[nodiscard]] bool end_is_to_come(const Client& client);
  void finish(Client& client);
  void drop(Client& client);

  Prefetcher& prefetcher_;
  const Resolve resolve_;
  Counter& dropped_;
  HintOrders orders_;  // used by the thread only, as the lists below
  // Shared with the prefetcher's callback, which may run after the server was destroyed.
  const std::shared_ptr<const FileDescriptor> event_;  // wakes the thread
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the two below
  bool is_started_ = false;
  std::vector<FileDescriptor> arrived_;
  // Used by the thread only:
  std::vector<Client> clients_;
  std::vector<pollfd> polled_;
  std::vector<char> piece_;
  std::vector<Hint> group_;
  ThreadPool thread_{1};  // last, so that it ends before the members that it uses
};

}  // namespace ffrfs
