// Where bytes go that are written once, from front to end, in pieces of any size.

#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace ffrfs {

// The bytes are valid during the call. What it throws comes out of the writer.
using ByteSink = std::function<void(std::span<const std::byte>)>;

}  // namespace ffrfs
