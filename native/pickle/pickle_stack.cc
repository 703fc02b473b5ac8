#include "pickle/pickle_stack.h"

#include <string>

#include "pickle/pickle_fault.h"

namespace ffrfs {
namespace {

// One mark for each open dict: the root and those below it.
constexpr size_t kMarkLimit = TreeBuilder::kDepthLimit + 1;
// A pickler sets the items of a dict in batches of a thousand (pickle._Pickler._BATCHSIZE).
constexpr size_t kValueLimit = kMarkLimit * (1 + 2 * 1000);

}  // namespace

void PickleStack::push(PickleValue value) {
  if (values_.size() == kValueLimit) throw PickleFault("more values wait than an index needs");
  values_.push_back(value);
}

void PickleStack::push_mark() {
  if (marks_.size() == kMarkLimit) {
    throw PickleFault("more than " + std::to_string(TreeBuilder::kDepthLimit) +
                      " directories deep");
  }
  marks_.push_back(values_.size());
}

void PickleStack::cut(size_t size) {
  values_.erase(values_.begin() + static_cast<ptrdiff_t>(size), values_.end());
}

size_t PickleStack::from_top(size_t count) const {
  if (values_.size() - floor() < count) throw PickleFault("too few values before it");
  return values_.size() - count;
}

size_t PickleStack::pop_mark() {
  if (marks_.empty()) throw PickleFault("no MARK before it");
  const size_t position = marks_.back();
  marks_.pop_back();
  if (position == floor()) throw PickleFault("nothing before its MARK");
  return position;
}

void PickleStack::put(uint64_t index) {
  if (index != memo_.size()) {
    throw PickleFault("memo number " + std::to_string(index) + " out of turn");
  }
  memo_.push_back(values_.back());
}

void PickleStack::get(uint64_t index) {
  if (index >= memo_.size()) {
    throw PickleFault("memo number " + std::to_string(index) + " is not there");
  }
  if (memo_[index].kind() == PickleValue::Kind::kDictionary) {
    throw PickleFault("the same OrderedDict in two places");
  }
  push(memo_[index]);
}

}  // namespace ffrfs
