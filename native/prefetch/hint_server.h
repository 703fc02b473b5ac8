// The programs that tell what they will read next: their sockets, and what comes from them.
//
//   socket ─► pieces ─► texts, a zero byte after each ─► hints ─► the client's list
//
// An empty text says that all has been said: the list is kept. A client that ends without
// it has died: its list is dropped. Nothing is sent back. While a list is full its socket
// is not read, so the client has to wait; that it dies is noticed all the same.
//
// All that comes is hostile. At most a piece and a text of each client are held.
//
// take() from any thread. All else happens on one thread of ours, which begins with the
// first client; it holds no lock while it resolves or adds, and waits for sockets only.
// Does not survive fork() (see io/process_local.h).
//
// Not here: what becomes of the lists (prefetcher.h), what a text names (volume.h).

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
#include "prefetch/prefetcher.h"
#include "stats/counter_page.h"

namespace ffrfs {

class HintServer {
 public:
  // nullopt: the text names nothing. Must not wait.
  using Resolve = std::function<std::optional<Hint>(std::string_view text)>;

  static constexpr size_t kTextSizeMax = 8192;

  // `dropped` counts the texts that name nothing. Takes the prefetcher's on_room() for
  // itself. Throws StorageError.
  HintServer(Prefetcher& prefetcher, Resolve resolve, Counter& dropped);
  ~HintServer();  // drops the lists of all who have not ended
  HintServer(const HintServer&) = delete;
  HintServer& operator=(const HintServer&) = delete;

  // Listens to a connected Unix stream socket. It is closed when the client has said all,
  // or does not keep to the rules; at once if the prefetcher has no list for it.
  void take(FileDescriptor socket) noexcept;

 private:
  struct Client {
    FileDescriptor socket;  // invalid: has ended
    Prefetcher::ListId list;
    size_t room;                // that the list has for hints; 0: the socket is not read
    std::string bytes;          // received and not used, from the beginning of a text
    bool has_said_all = false;  // has died while it was not read; the end is in its socket
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
  // The prefetcher's callback shares it, and may still be running when we have gone.
  const std::shared_ptr<const FileDescriptor> event_;  // wakes the thread
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the two below
  bool is_started_ = false;
  std::vector<FileDescriptor> arrived_;
  // The thread's alone:
  std::vector<Client> clients_;
  std::vector<pollfd> polled_;
  std::vector<char> piece_;
  std::vector<Hint> group_;
  ThreadPool thread_{1};  // last: it ends before what it uses
};

}  // namespace ffrfs
