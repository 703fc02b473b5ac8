// Takes bytes that are written once, from front to end, in pieces of any size.

#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace ffrfs {

// The bytes are valid only during the call. The writer passes exceptions on.
using ByteSink = std::function<void(std::span<const std::byte>)>;

}  // namespace ffrfs
