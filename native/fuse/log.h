// The worker's log: lines on stderr, which the daemon reads and puts into its own.
//
// A line begins with its priority as sd-daemon(3) has it ("<3>" is an error), so it can
// stand in a journal, too. One write(2) a line: lines of several threads do not mix. If
// the daemon does not read, lines are lost rather than readers held up.

#pragma once

#include <cstdint>
#include <string_view>

namespace ffrfs {

enum class Priority { kError = 3, kWarning = 4, kInfo = 6, kDebug = 7 };

// Line breaks in `text` become "\n": names of a pack may hold some.
void log_line(Priority priority, std::string_view text);

// "cannot read PATH: REASON", an error. Before the text are, between two bytes 0x1f, the inode
// that the failure counts for and the size of PATH in the line, for the daemon's list.
void log_failure(uint64_t ino, std::string_view path, std::string_view reason);

}  // namespace ffrfs
