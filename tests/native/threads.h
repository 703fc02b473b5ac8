// Runs the same work in several threads.

#pragma once

#include <cstdint>
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

}  // namespace ffrfs::test
