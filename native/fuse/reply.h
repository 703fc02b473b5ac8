// The answer to one request: a handle, which a handler keeps until it has the answer.
//
// Each request needs exactly one call of answer(), error(), bytes(), parts() or value(), on any
// thread.
// Copying the handle copies no bytes.
// Not here: sending answers to the kernel (the transports).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ffrfs::fuse {

class Reply;

using Part = std::span<const std::byte>;
using Parts = std::span<const Part>;

// The interface of transports for answers.
class AnswerSink {
 public:
  // Sends an errno, or `parts` if `error` is 0; a single part may be in room(). Never waits for
  // more than the kernel's copy.
  virtual void answer(const Reply& reply, int error, Parts parts) noexcept = 0;

 protected:
  ~AnswerSink() = default;
};

class Reply {
 public:
  // `place`: the transport's own data for the request.
  Reply(AnswerSink& sink, uint64_t unique, std::span<std::byte> room, void* place = nullptr)
      : sink_(&sink), unique_(unique), room_(room), place_(place) {}

  // Sends an errno, or `parts` if that is 0.
  void answer(int error, Parts parts) const noexcept { sink_->answer(*this, error, parts); }
  void error(int number) const noexcept { answer(number, {}); }
  void bytes(Part body) const noexcept { parts({&body, 1}); }
  // Takes at most kPartCountMax parts.
  static constexpr size_t kPartCountMax = 16;
  void parts(Parts parts) const noexcept { answer(0, parts); }
  template <typename T> void value(const T& structure) const noexcept {
    bytes(std::as_bytes(std::span(&structure, 1)));
  }

  // Returns memory to build an answer in, which is then not copied; valid until handle() returns.
  [[nodiscard]] std::span<std::byte> room() const { return room_; }

  [[nodiscard]] Reply without_room() const { return {*sink_, unique_, {}, place_}; }

  [[nodiscard]] uint64_t unique() const { return unique_; }
  [[nodiscard]] void* place() const { return place_; }

 private:
  AnswerSink* sink_;
  uint64_t unique_;
  std::span<std::byte> room_;
  void* place_;
};

}  // namespace ffrfs::fuse
