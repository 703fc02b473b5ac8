// The stack of a pickle, its marks, and the memo.
//
// The stack is bounded by what a tree of the allowed depth can need, the memo by the number of
// objects that were made. All functions throw PickleFault.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tree/tree_builder.h"

namespace ffrfs {

// One value, in eight bytes, because the memo of a large index has a million of them.
class PickleValue {
 public:
  enum class Kind : uint8_t {
    kName,         // payload: TreeBuilder::NameRef
    kNumber,       // the number
    kDictionary,   // TreeBuilder::DirectoryId
    kOrderedDict,  // the class; no payload
    kEmptyTuple,   // no payload
  };

  static constexpr int64_t kPayloadLimit = int64_t{1} << 60;  // |payload| is below

  explicit PickleValue(Kind kind, int64_t payload = 0)
      : bits_(payload * 8 + static_cast<int>(kind)) {}

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(bits_ & 7); }
  [[nodiscard]] int64_t payload() const { return bits_ >> 3; }
  [[nodiscard]] uint32_t ref() const { return static_cast<uint32_t>(payload()); }

 private:
  int64_t bits_;
};

class PickleStack {
 public:
  [[nodiscard]] size_t size() const { return values_.size(); }
  [[nodiscard]] PickleValue operator[](size_t at) const { return values_[at]; }
  [[nodiscard]] bool has_marks() const { return !marks_.empty(); }

  void push(PickleValue value);
  void push_mark();

  // Removes all values from position `size` on.
  void cut(size_t size);

  // Returns where the last `count` values begin; there may be no mark among them.
  [[nodiscard]] size_t from_top(size_t count) const;

  // Removes the last mark, and returns its position. There must be a value before it.
  [[nodiscard]] size_t pop_mark();

  // Returns the number of the next object in the memo.
  [[nodiscard]] uint64_t memo_size() const { return memo_.size(); }

  // Memoizes the top value. Picklers use consecutive numbers, so the memo is a list.
  void put(uint64_t index);
  // Pushes a memoized value; throws for a dict, because a dict may be in one place only.
  void get(uint64_t index);

 private:
  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<PickleValue> values_;
  std::vector<size_t> marks_;  // sizes of values_
  std::vector<PickleValue> memo_;
};

}  // namespace ffrfs
