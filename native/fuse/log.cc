#include "fuse/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdarg>
#include <cstdio>
#include <string>

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_log.h>

namespace ffrfs {
namespace {

constexpr int kLibfuseLineSize = 512;

void log_libfuse(fuse_log_level level, const char* format, va_list arguments) {
  char text[kLibfuseLineSize];
  const int size = vsnprintf(text, sizeof text, format, arguments);
  if (size <= 0) return;
  std::string_view line(text);
  if (line.ends_with('\n')) line.remove_suffix(1);
  log_line(level <= FUSE_LOG_ERR       ? Priority::kError
           : level == FUSE_LOG_WARNING ? Priority::kWarning
           : level <= FUSE_LOG_INFO    ? Priority::kInfo
                                       : Priority::kDebug,
           line);
}

}  // namespace

void log_line(Priority priority, std::string_view text) {
  std::string line = "<" + std::to_string(static_cast<int>(priority)) + ">";
  for (const char c : text) {
    if (line.size() >= PIPE_BUF - 3) break;  // so that a write to a pipe is atomic
    if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  line += '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void take_over_libfuse_log() { fuse_set_log_func(&log_libfuse); }

}  // namespace ffrfs
