// Where the values of a pickle wait: the stack, its marks, and the memo.
//
// Bounded: the stack by what a tree of the allowed depth can need, the memo by the
// objects that were made. All throw PickleFault.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tree/tree_builder.h"

namespace ffrfs {

// One value, in eight bytes: of a large index, a million lie in the memo.
class PickleValue {
 public:
  enum class Kind : uint8_t {
    kName,         // payload: TreeBuilder::NameRef
    kNumber,       // the number
    kDictionary,   // TreeBuilder::DirectoryId
    kOrderedDict,  // the class; none
    kEmptyTuple,   // none
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

  // Forgets all from position `size` on.
  void cut(size_t size);

  // Where the last `count` values begin; no mark may lie among them.
  [[nodiscard]] size_t from_top(size_t count) const;

  // Takes the last mark away, and gives the position after it. A value must stand before.
  [[nodiscard]] size_t pop_mark();

  // The number that the next object in the memo gets.
  [[nodiscard]] uint64_t memo_size() const { return memo_.size(); }

  // Memoizes the top. A pickler does so under the next number: the memo is a list.
  void put(uint64_t index);
  // Pushes what is memoized; never a dict, which is in one place only.
  void get(uint64_t index);

 private:
  [[nodiscard]] size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<PickleValue> values_;
  std::vector<size_t> marks_;  // sizes of values_
  std::vector<PickleValue> memo_;
};

}  // namespace ffrfs
