// Shared by the fuzz targets: require() for broken invariants, and the input as a file, for the
// targets that read one.
//
// Each target is a program of its own with one thread; run.py runs it.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace ffrfs::fuzz {

// Aborts if an invariant is broken, because libFuzzer then saves the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A file that holds one input after another, and stays open between them.
class InputFile {
 public:
  // A file in memory, which can be opened by its path.
  InputFile() : InputFile(memfd_create("fuzz", MFD_CLOEXEC), "") {
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  explicit InputFile(const std::string& path)
      : InputFile(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), path) {}
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { close(fd_); }

  [[nodiscard]] const std::string& path() const { return path_; }

  // Behind `bytes` the file is a hole, which costs nothing.
  void write(std::span<const std::byte> bytes, uint64_t file_size) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    require(pwrite(fd_, bytes.data(), bytes.size(), 0) == size, "pwrite");
    // First cut to the bytes that were written, so that nothing of an earlier input is left.
    require(ftruncate(fd_, size) == 0, "ftruncate");
    require(ftruncate(fd_, static_cast<off_t>(file_size)) == 0, "ftruncate");
  }
  void write(std::span<const std::byte> bytes) const { write(bytes, bytes.size()); }

 private:
  InputFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
    require(fd >= 0, "open");
  }

  int fd_;
  std::string path_;
};

}  // namespace ffrfs::fuzz
