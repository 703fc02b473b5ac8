#include "fuse/dev_transport.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "fuse/log.h"
#include "io/little_endian.h"

namespace ffrfs::fuse {
namespace {

constexpr int kWakeUp = SIGUSR1;
// Answers up to this size, as of small files, are built in place; larger ones have their own
// memory.
constexpr size_t kRoomSize = 128 << 10;

// Lets a signal interrupt the read(2) in which a thread waits for a request.
void heed_wake_ups() {
  struct sigaction action{};
  action.sa_handler = [](int) {};  // no SA_RESTART
  sigaction(kWakeUp, &action, nullptr);
}

struct Buffers {
  alignas(8) std::byte message[Connection::kMessageSizeMax];
  alignas(4096) std::byte room[kRoomSize];
};

// Touches the pages of `message` before a request is read into them: a thread that is being killed
// gets no new page, and the kernel answers the request that it was copying there with EIO.
std::unique_ptr<Buffers> make_buffers() {
  auto buffers = std::make_unique_for_overwrite<Buffers>();
  std::ranges::fill(buffers->message, std::byte{});
  return buffers;
}

}  // namespace

class DevTransport::Listed {
 public:
  explicit Listed(DevTransport& transport) : transport_(transport) {
    const std::lock_guard lock(transport_.mutex_);
    transport_.receiving_.push_back(pthread_self());
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  ~Listed() {
    const std::lock_guard lock(transport_.mutex_);
    std::erase(transport_.receiving_, pthread_self());
  }

 private:
  DevTransport& transport_;
};

std::optional<Agreement> DevTransport::shake_hands(const Wishes& wishes) {
  heed_wake_ups();
  if (const auto init = journal_.init())
    agreement_ = agree(std::as_bytes(std::span(*init)), wishes);
  if (agreement_ && !agreement_->has_resend) {
    journal_.unanswered([this](uint64_t unique) { connection_.answer(unique, EIO, {}); });
  }
  // Resends even if no INIT is known: the previous process may have ended while it had INIT.
  connection_.resend();
  journal_.clear();
  if (!agreement_) agreement_ = wait_for_init(wishes);
  return agreement_;
}

std::optional<Agreement> DevTransport::wait_for_init(const Wishes& wishes) {
  const Listed listed(*this);
  const auto buffers = make_buffers();
  while (!is_stopping_) {
    const ssize_t size = connection_.receive(buffers->message);
    if (size < 0) break;
    const auto message = std::span(buffers->message).first(static_cast<size_t>(size));
    const auto header = parse_header(message);
    if (!header) continue;
    if (header->opcode != static_cast<uint32_t>(Opcode::kInit)) {
      connection_.answer(header->unique, EIO, {});  // nothing may come before INIT
      continue;
    }
    agreement_ = agree(message.subspan(sizeof(InHeader)), wishes);
    if (!agreement_) {
      log_line(Priority::kError, "this kernel is too old: FUSE 7.23 (Linux 3.15) is needed");
      connection_.answer(header->unique, EPROTO, {});
      break;
    }
    journal_.keep_init(message.subspan(sizeof(InHeader)));
    answer_init(header->unique);
    return agreement_;
  }
  return std::nullopt;
}

void DevTransport::answer_init(uint64_t unique) const {
  const Part answer = std::as_bytes(std::span(&agreement_->answer, 1));
  connection_.answer(unique, 0, {&answer, 1});
}

void DevTransport::serve(size_t thread_count) {
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < thread_count) others.emplace_back([this] { receive(); });
  } catch (const std::system_error& error) {
    log_line(Priority::kWarning, std::to_string(others.size() + 1) + " threads instead of " +
                                     std::to_string(thread_count) + ": " + error.what());
  }
  receive();
  for (std::thread& thread : others) thread.join();
}

void DevTransport::receive() {
  const Listed listed(*this);
  const auto buffers = make_buffers();
  while (!is_stopping_ && receiver_limit_.enter()) {
    // Blocks; the kernel wakes one thread per request.
    const ssize_t size = connection_.receive(buffers->message);
    receiver_limit_.leave();
    if (size < 0) break;
    take(std::span(buffers->message).first(static_cast<size_t>(size)), buffers->room);
  }
  receiver_limit_.close();
}

void DevTransport::take(std::span<const std::byte> message, std::span<std::byte> room) {
  const auto header = parse_header(message);
  if (!header) return;
  switch (static_cast<Opcode>(header->opcode)) {
    case Opcode::kForget:
    case Opcode::kBatchForget: return;  // inode numbers are computed: there is no lookup count
    case Opcode::kInterrupt:
      if (const auto body = message.subspan(sizeof(InHeader)); body.size() >= sizeof(InterruptIn)) {
        handler_.interrupt(load_le<uint64_t>(body));
      }
      return;
    case Opcode::kInit: return answer_init(header->unique);  // resent: its reader has ended
    default: break;
  }
  const Reply reply(*this, header->unique, room, journal_.begin(*header));
  if (const auto request = parse_message(*header, message)) {
    handler_.handle(*request, reply);
  } else {
    reply.error(EINVAL);
  }
}

void DevTransport::answer(const Reply& reply, int error, Parts parts) noexcept {
  connection_.answer(reply.unique(), error, parts);
  Journal::end(static_cast<Counter*>(reply.place()));
}

void DevTransport::stop() {
  is_stopping_ = true;
  const std::lock_guard lock(mutex_);
  for (const pthread_t thread : receiving_) pthread_kill(thread, kWakeUp);
}

}  // namespace ffrfs::fuse
