// What is wrong with a pickle, in one phrase. Thrown by the parts of the machine to its main loop
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
