// The state that an ObjectLink keeps of each request and each object. Private to ObjectLink.
//
// Plain data: guarded by the link's lock.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "remote/object_link.h"

namespace ffrfs::remote {

struct ObjectLink::Request {
  Ask ask{};
  uint32_t number = 0;  // the object's number
  BlockRange range{};
  Done done{};
  std::string url{};
  std::shared_ptr<std::promise<ObjectPtr>> opened{};  // set in the first OPEN of an object
  std::shared_ptr<std::atomic<bool>> settled{};       // that of Opening
  std::vector<std::string> listed{};
  std::function<void(std::vector<std::string>)> take_list{};
  Clock::time_point deadline{};
  bool is_sent = false;
};

// An object of the link, by its number.
struct ObjectLink::Known {
  enum class State { kClosed, kOpening, kOpen };
  State state = State::kClosed;
  std::string url{};
  std::string name{};
  ObjectPtr object{};            // nullptr until it was opened once
  std::deque<uint64_t> parked{};  // requests that wait until the object is open
};

}  // namespace ffrfs::remote
