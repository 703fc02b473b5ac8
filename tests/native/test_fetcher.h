// A test's fetcher: a thread that speaks the protocol of native/remote over a socket pair,
// with real files, from objects in memory. It can be late or wrong, or die, as the test
// wants. It has no network; the fetcher in ffrfs/remote has that.

#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/crc.h"
#include "io/file_descriptor.h"
#include "messages.h"
#include "remote/link_message.h"
#include "scratch.h"

namespace ffrfs::test {

constexpr uint64_t kTestBlock = 4096;

// The data file and the state file of a cached object.
class TestObject {
 public:
  explicit TestObject(Bytes content, const std::string& folder = "")
      : content_(std::move(content)) {
    data_ = make(folder, ".data");
    state_ = make(folder, ".state");
    [[maybe_unused]] const int cut = ftruncate(data_.get(), static_cast<off_t>(content_.size()));
    write_state(content_.size());
  }

  void write_state(uint64_t size, uint32_t version = 1) {
    const uint64_t count = (content_.size() + kTestBlock - 1) / kTestBlock;
    Bytes header = "ffrfscb1";
    append_le<uint32_t>(header, version);
    append_le<uint32_t>(header, 12);  // log2 of kTestBlock
    append_le<uint64_t>(header, size);
    append_le<uint64_t>(header, (size + kTestBlock - 1) / kTestBlock);
    header.resize(4092);
    append_le(header, crc32c(view(header)));
    header.resize(4096 + count + 1);
    put(state_, 0, header);
  }
  void fill(uint64_t first, uint64_t count) {
    const std::lock_guard lock(mutex_);
    for (uint64_t block = first; block < first + count; ++block) {
      const Bytes bytes = content_.substr(block * kTestBlock, kTestBlock);
      put(data_, block * kTestBlock, bytes);
      const auto number = static_cast<char>(1 + (fills_[block]++ % 255));
      put(state_, 4096 + block, Bytes(1, number));
    }
  }
  void evict(uint64_t block) {
    const std::lock_guard lock(mutex_);
    put(state_, 4096 + block, Bytes(1, '\0'));
    put(data_, block * kTestBlock,
        Bytes(std::min<size_t>(kTestBlock, content_.size() - block * kTestBlock), '\0'));
  }
  // Damages the object in the cache, not at the origin.
  void damage(uint64_t offset) { put(data_, offset, "wrong"); }
  void change(Bytes content) { content_ = std::move(content); }
  [[nodiscard]] const Bytes& content() const { return content_; }
  [[nodiscard]] int data() const { return data_.get(); }
  [[nodiscard]] int state() const { return state_.get(); }

 private:
  static FileDescriptor make(const std::string& folder, const char* suffix) {
    static std::atomic<int> count{0};
    if (folder.empty()) return FileDescriptor(memfd_create("test", MFD_CLOEXEC));
    const std::string path = folder + "/" + std::to_string(count++) + suffix;
    return FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  static void put(const FileDescriptor& file, uint64_t offset, const Bytes& bytes) {
    if (pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("a test's file cannot be written");
    }
  }

  std::mutex mutex_;
  Bytes content_;
  FileDescriptor data_;
  FileDescriptor state_;
  std::map<uint64_t, int> fills_;
};

struct Asked {
  remote::Ask kind{};
  uint32_t object = 0;
  uint64_t id = 0;
  std::string url{};
  std::string pin{};
  uint64_t first = 0;
  uint64_t count = 0;
};

// Return a MOVED message for object 0.
inline Bytes moved() {
  Bytes message;
  append_le(message, static_cast<uint32_t>(remote::Told::kMoved));
  append_le(message, uint32_t{0});
  append_le(message, uint64_t{0});
  return message;
}

// Its methods may be called from any thread. It serves one link at a time.
class TestFetcher {
 public:
  TestFetcher() = default;
  ~TestFetcher() { kill(); }

  void add(const std::string& url, std::shared_ptr<TestObject> object) {
    const std::lock_guard lock(mutex_);
    objects_[url] = std::move(object);
  }

  // Return the client's end of a new link. The link before it ends.
  [[nodiscard]] FileDescriptor start() {
    kill();
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
      throw std::runtime_error("socketpair failed");
    }
    socket_ = FileDescriptor(pair[0]);
    numbers_.clear();
    thread_ = std::thread([this] { run(); });
    return FileDescriptor(pair[1]);
  }
  void kill() {
    if (!thread_.joinable()) return;
    shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
    socket_.reset();
    const std::lock_guard lock(mutex_);
    held_.clear();
  }

  // From now on blocks are not brought; release() brings those that were requested meanwhile.
  void hold() {
    const std::lock_guard lock(mutex_);
    is_holding_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    is_holding_ = false;
    for (const Asked& asked : held_) bring(asked);
    held_.clear();
  }
  // From now on `answer` handles each request first; where it returns true, nothing else is done.
  void answer_by(std::function<bool(TestFetcher&, const Asked&)> answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  [[nodiscard]] std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  [[nodiscard]] size_t count(remote::Ask kind) const {
    size_t found = 0;
    for (const Asked& one : asked()) found += one.kind == kind ? 1 : 0;
    return found;
  }

  void send(remote::Told kind, uint32_t object, uint64_t id, const Bytes& body = "",
            std::vector<int> carried = {}) const {
    Bytes message;
    append_le(message, static_cast<uint32_t>(kind));
    append_le(message, object);
    append_le(message, id);
    send_raw(message + body, std::move(carried));
  }
  void send_raw(Bytes message, std::vector<int> carried = {}) const {
    (void)send_message(socket_.get(), std::move(message), carried);
  }
  void send_opened(const Asked& asked, const TestObject& object, const std::string& pin = "v1",
                   int64_t mtime_ns = 7) const {
    Bytes body;
    append_le<uint64_t>(body, object.content().size());
    append_le<int64_t>(body, mtime_ns);
    append_le<uint64_t>(body, kTestBlock);
    send(remote::Told::kOpened, asked.object, asked.id, body + pin,
         {object.data(), object.state()});
  }
  void send_failed(const Asked& asked, const std::string& kind, const std::string& line) const {
    send(remote::Told::kFailed, asked.object, asked.id, kind + Bytes(1, '\0') + line);
  }

 private:
  void run() {
    std::vector<char> memory(65536);
    while (true) {
      const ssize_t size = recv(socket_.get(), memory.data(), memory.size(), 0);
      if (size <= 0) return;
      const Asked asked = parse(Bytes(memory.data(), static_cast<size_t>(size)));
      const std::lock_guard lock(mutex_);
      asked_.push_back(asked);
      if (asked.kind == remote::Ask::kOpen && objects_.contains(asked.url)) {
        numbers_[asked.object] = objects_[asked.url];
      }
      if (answer_ && answer_(*this, asked)) continue;
      take(asked);
    }
  }

  static Asked parse(const Bytes& message) {
    Asked asked;
    uint32_t kind = 0;
    std::memcpy(&kind, message.data(), 4);
    asked.kind = static_cast<remote::Ask>(kind);
    std::memcpy(&asked.object, message.data() + 4, 4);
    std::memcpy(&asked.id, message.data() + 8, 8);
    const Bytes body = message.substr(16);
    if (asked.kind == remote::Ask::kOpen) {
      asked.url = body.substr(0, body.find('\0'));
      asked.pin = body.substr(body.find('\0') + 1);
    } else if (asked.kind == remote::Ask::kList) {
      asked.url = body;
    } else if (body.size() == 16) {
      std::memcpy(&asked.first, body.data(), 8);
      std::memcpy(&asked.count, body.data() + 8, 8);
    }
    return asked;
  }

  void take(const Asked& asked) {
    switch (asked.kind) {
      case remote::Ask::kOpen:
        if (const auto found = objects_.find(asked.url); found != objects_.end()) {
          send_opened(asked, *found->second);
        } else {
          send_failed(asked, "RemoteNotFoundError", "there is no such object");
        }
        break;
      case remote::Ask::kList: {
        Bytes body;
        append_le<uint32_t>(body, 0);
        for (const auto& [url, object] : objects_) {
          if (url.starts_with(asked.url)) body += url + '\0';
        }
        send(remote::Told::kListed, asked.object, asked.id, body);
        break;
      }
      case remote::Ask::kWant:
      case remote::Ask::kSoon:
      case remote::Ask::kAgain:
        if (is_holding_) {
          held_.push_back(asked);
        } else {
          bring(asked);
        }
        break;
      default: break;
    }
  }

  void bring(const Asked& asked) {
    const auto found = numbers_.find(asked.object);
    if (found == numbers_.end()) throw std::logic_error("blocks of what is not open");
    found->second->fill(asked.first, asked.count);
    send(remote::Told::kReady, asked.object, asked.id);
  }

  mutable std::mutex mutex_;  // guards all below but the socket and the thread
  std::map<std::string, std::shared_ptr<TestObject>> objects_;
  std::map<uint32_t, std::shared_ptr<TestObject>> numbers_;
  std::vector<Asked> asked_;
  std::vector<Asked> held_;
  bool is_holding_ = false;
  std::function<bool(TestFetcher&, const Asked&)> answer_;
  FileDescriptor socket_;
  std::thread thread_;
};

}  // namespace ffrfs::test
