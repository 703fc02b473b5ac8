// Helpers for the page cache: drop a file's pages, and see whether any are cached.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "io/file_descriptor.h"

namespace ffrfs::test {

// Drops the file's pages, so that the next read waits for the disk.
inline void drop_cached_pages(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  fdatasync(file.get());  // the kernel does not drop dirty pages
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

// Return whether any page of the file is in memory.
inline bool is_cached(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto size = static_cast<size_t>(lseek(file.get(), 0, SEEK_END));
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  std::vector<unsigned char> pages(size / 4096 + 1);
  mincore(mapped, size, pages.data());
  munmap(mapped, size);
  for (const unsigned char page : pages) {
    if (page & 1) return true;
  }
  return false;
}

}  // namespace ffrfs::test
