// A system that has no AIO events left, for a while.

#pragma once

#include <libaio.h>

#include <vector>

namespace ffrfs::test {

// Takes AIO events until the system has none left (fs.aio-max-nr).
class AllAioEvents {
 public:
  AllAioEvents() { take(); }
  ~AllAioEvents() {
    for (const io_context_t context : contexts_) io_destroy(context);
  }

  // Also takes the events that other processes have given back meanwhile.
  void take() {
    for (int events = 16'384; events >= 1;) {
      io_context_t context = nullptr;
      if (io_setup(events, &context) == 0) {
        contexts_.push_back(context);
      } else {
        events /= 2;
      }
    }
  }

 private:
  std::vector<io_context_t> contexts_;
};

}  // namespace ffrfs::test
