// An error in a pickle, as one phrase. The parts of the machine throw it to its main loop
// (pickle_index.cc), which adds the file and the opcode.

#pragma once

#include <stdexcept>

namespace ffrfs {

struct PickleFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The pickle would run code.
struct UnsafePickleFault : PickleFault {
  using PickleFault::PickleFault;
};

}  // namespace ffrfs
