// Runs the same work in several threads, counts threads, and forks a process that has several.

#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
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

// Returns how often each other thread has slept, or "" if one does not sleep now.
inline std::string sleeps_of_others() {
  std::string sleeps = ".";
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(thread.path() / "status");
    const std::string status(std::istreambuf_iterator<char>(file), {});
    const size_t count = status.find("\nvoluntary_ctxt_switches");
    if (count == std::string::npos || status.find("\nState:\tS") == std::string::npos) return "";
    sleeps += thread.path().filename().string() + status.substr(count);
  }
  return sleeps;
}

// Forks. Under ASan it waits until no other thread runs: the child gets the locks of ASan's
// allocator as they are (clang before 17), and nobody unlocks one that another thread holds.
inline pid_t fork_among_threads() {
#ifdef FFRFS_ASAN
  std::string before, now;
  do {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = sleeps_of_others();
  } while (now.empty() || now != before);
#endif
  return fork();
}

}  // namespace ffrfs::test
