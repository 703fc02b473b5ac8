// The worker's log: lines on stderr, which the daemon copies to its own log.
//
// A line begins with its priority as in sd-daemon(3) ("<3>" is an error), so that it can go to a
// journal, too. One write(2) a line, so that lines of several threads do not mix. If the daemon
// does not read, lines are lost, because readers must not wait for the log.

#pragma once

#include <cstdint>
#include <string_view>

namespace ffrfs {

enum class Priority { kError = 3, kWarning = 4, kInfo = 6, kDebug = 7 };

// Replaces line breaks in `text` by "\n", because names in a pack may contain some.
void log_line(Priority priority, std::string_view text);

// Logs "cannot read PATH: REASON" as an error. Before the text it writes, between two bytes 0x1f,
// the inode that the failure counts for and the size of PATH in the line, for the daemon's list.
void log_failure(uint64_t ino, std::string_view path, std::string_view reason);

}  // namespace ffrfs
