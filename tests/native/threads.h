// Runs the same work in several threads, and counts threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>
#include <type_traits>
#include <vector>

namespace ffrfs::test {

// Runs work(0 … count - 1), or work(), each in its own thread; returns when all have ended.
template <typename Work> void in_threads(uint32_t count, const Work& work) {
  std::vector<std::jthread> threads;
  for (uint32_t number = 0; number < count; ++number) {
    if constexpr (std::is_invocable_v<const Work&>) {
      threads.emplace_back([&work] { work(); });
    } else {
      threads.emplace_back([&work, number] { work(number); });
    }
  }
}

// Returns how many threads this process has.
inline size_t thread_count() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

}  // namespace ffrfs::test
