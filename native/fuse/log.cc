#include "fuse/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>

namespace ffrfs {
namespace {

std::string in_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

void log_line(Priority priority, std::string_view text) {
  std::string line = "<" + std::to_string(static_cast<int>(priority)) + ">";
  line += in_one_line(text);
  line.resize(std::min<size_t>(line.size(), PIPE_BUF - 1));  // pipe writes of this size are atomic
  line += '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void log_failure(uint64_t ino, std::string_view path, std::string_view reason) {
  std::string line = in_one_line(path);
  const std::string about = std::to_string(ino) + " " + std::to_string(line.size());
  line.append(": ").append(reason);
  log_line(Priority::kError, "\x1f" + about +
                                 "\x1f"
                                 "cannot read " +
                                 line);
}

}  // namespace ffrfs
