// What a FetchLink keeps of each request and each object. Private to it.
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

#include "remote/fetch_link.h"

namespace ffrfs::remote {

struct FetchLink::Request {
  Ask ask{};
  uint32_t number = 0;  // of the object
  BlockRange range{};
  Done done{};
  std::string url{};
  std::shared_ptr<std::promise<ObjectPtr>> opened{};  // of the first OPEN of an object
  std::vector<std::string> listed{};
  std::function<void(std::vector<std::string>)> take_list{};
  Clock::time_point deadline{};
  bool is_sent = false;

};

// An object by its number.
struct FetchLink::Known {
  enum class State { kClosed, kOpening, kOpen };
  State state = State::kClosed;
  std::string url{};
  std::string name{};
  ObjectPtr object{};            // nullptr until it was opened once
  std::deque<uint64_t> parked{};  // requests that wait for it to be open
};

}  // namespace ffrfs::remote
