// What is wrong with a pickle, in one phrase, thrown by its parts to the machine that
// reads it (pickle_index.cc), which alone knows the file and the opcode.

#pragma once

#include <stdexcept>

namespace ffrfs {

struct PickleFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// It would run code.
struct UnsafePickleFault : PickleFault {
  using PickleFault::PickleFault;
};

}  // namespace ffrfs
