#include "pickle/pickle_writer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "pickle/pickle_opcode.h"

namespace ffrfs {
namespace {

constexpr uint32_t kBatchCount = 1000;
constexpr size_t kFrameSize = 64 << 10;
constexpr size_t kSmallestFrameSize = 4;  // shorter ones have no frame
constexpr uint8_t kClassMemo = 2;  // OrderedDict: memoized third, after its module and name
constexpr uint32_t kNone = UINT32_MAX;

class IndexPickler {
 public:
  IndexPickler(const IndexEntries& source, const ByteSink& sink) : source_(source), sink_(sink) {
    frame_.reserve(2 * kFrameSize);
    short_names_.fill(kNone);
  }

  void run();

 private:
  // A dict that is being written.
  struct Dict {
    uint32_t next = 0;  // slot
    uint32_t end = 0;
    uint32_t next_subdirectory = 0;  // its number
    uint32_t left_count = 0;         // incomplete items
    uint32_t batch_left_count = 0;   // of the open batch
    Opcode batch_end = Opcode::kSetitems;
  };

  [[nodiscard]] Dict open(uint32_t directory) const;
  bool put_items(Dict& target);
  void begin_batch(Dict& target);
  void end_item(Dict& target);

  void put_class();
  void put_new_dict();
  void put_text(std::string_view text);
  void put_name(std::string_view name);
  void put_memo(uint32_t memo);
  void put_record(uint32_t record);

  void put(Opcode opcode) { frame_.push_back(std::byte{static_cast<uint8_t>(opcode)}); }
  template <typename T> void put(Opcode opcode, T argument) {
    put(opcode);
    const auto bytes = std::as_bytes(std::span(&argument, 1));
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
  }
  void memoize() {
    put(Opcode::kMemoize);
    ++memo_count_;
  }

  void end_full_frame();
  void close_frame();

  const IndexEntries& source_;
  const ByteSink& sink_;
  std::vector<std::byte> frame_;            // the open frame, not yet in the sink
  std::vector<uint32_t> first_subdirectory_;  // its number, by directory
  uint32_t memo_count_ = 0;
  // CPython has one object per character up to U+00FF, and memoizes by object: so only names of one
  // such character are repeated by their memo number.
  std::array<uint32_t, 256> short_names_;
};

// Returns the code point of a name of one character up to U+00FF, or kNone.
uint32_t short_name(std::string_view name) {
  const auto at = [name](size_t i) { return static_cast<uint8_t>(name[i]); };
  if (name.size() == 1 && at(0) < 0x80) return at(0);
  if (name.size() == 2 && (at(0) == 0xC2 || at(0) == 0xC3)) {
    return (at(0) & 0x03U) << 6 | (at(1) & 0x3FU);
  }
  return kNone;
}

void IndexPickler::run() {
  first_subdirectory_.reserve(source_.directory_count());
  uint32_t number = 1;
  for (uint32_t directory = 0; directory < source_.directory_count(); ++directory) {
    first_subdirectory_.push_back(number);
    number += source_.directory(directory).subdirectory_count;
  }
  const std::array<std::byte, 2> protocol{std::byte{static_cast<uint8_t>(Opcode::kProto)},
                                          std::byte{4}};
  sink_(protocol);
  put_class();
  put_new_dict();
  std::vector<Dict> stack{open(0)};
  while (!stack.empty()) {
    const uint32_t subdirectory = stack.back().next_subdirectory;
    if (put_items(stack.back())) {
      stack.push_back(open(subdirectory));
      continue;
    }
    stack.pop_back();
    if (!stack.empty()) end_item(stack.back());
  }
  put(Opcode::kStop);
  close_frame();
}

IndexPickler::Dict IndexPickler::open(uint32_t number) const {
  const SourceDirectory directory = source_.directory(number);
  Dict dict{.next = directory.first,
            .end = directory.first + directory.entry_count,
            .next_subdirectory = first_subdirectory_[number]};
  for (uint32_t slot = dict.next; slot < dict.end; ++slot) {
    if (source_.entry(slot).kind != InodeKind::kSymlink) ++dict.left_count;
  }
  return dict;
}

// Writes items up to the next directory's name, and returns true; returns false at the end.
bool IndexPickler::put_items(Dict& target) {
  while (target.next < target.end) {
    const IndexEntry entry = source_.entry(target.next++);
    if (entry.kind == InodeKind::kSymlink) continue;
    if (target.batch_left_count == 0) begin_batch(target);
    put_name(entry.name);
    end_full_frame();
    if (entry.kind == InodeKind::kDirectory) {
      ++target.next_subdirectory;
      put(Opcode::kBinget, kClassMemo);
      end_full_frame();
      put_new_dict();
      return true;
    }
    put_record(entry.record);
    end_item(target);
  }
  return false;
}

void IndexPickler::begin_batch(Dict& target) {
  target.batch_left_count = std::min(target.left_count, kBatchCount);
  if (target.batch_left_count == 1) {
    target.batch_end = Opcode::kSetitem;
  } else {
    target.batch_end = Opcode::kSetitems;
    put(Opcode::kMark);
  }
}

void IndexPickler::end_item(Dict& target) {
  --target.left_count;
  if (--target.batch_left_count == 0) put(target.batch_end);
}

void IndexPickler::put_class() {
  put_text("collections");
  put_text("OrderedDict");
  put(Opcode::kStackGlobal);
  memoize();
}

void IndexPickler::put_new_dict() {
  put(Opcode::kEmptyTuple);
  put(Opcode::kReduce);
  memoize();
}

void IndexPickler::put_text(std::string_view text) {
  put(Opcode::kShortBinunicode, static_cast<uint8_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  frame_.insert(frame_.end(), bytes.begin(), bytes.end());
  memoize();
}

void IndexPickler::put_name(std::string_view name) {
  end_full_frame();
  if (const uint32_t character = short_name(name); character != kNone) {
    uint32_t& memo = short_names_[character];
    if (memo != kNone) {
      put_memo(memo);
      return;
    }
    memo = memo_count_;
  }
  put_text(name);
}

void IndexPickler::put_memo(uint32_t memo) {
  if (memo <= UINT8_MAX) {
    put(Opcode::kBinget, static_cast<uint8_t>(memo));
  } else {
    put(Opcode::kLongBinget, memo);
  }
}

void IndexPickler::put_record(uint32_t record) {
  if (record <= UINT8_MAX) {
    put(Opcode::kBinint1, static_cast<uint8_t>(record));
  } else if (record <= UINT16_MAX) {
    put(Opcode::kBinint2, static_cast<uint16_t>(record));
  } else if (record <= INT32_MAX) {
    put(Opcode::kBinint, record);
  } else {  // five bytes, the last for the sign
    put(Opcode::kLong1, uint8_t{5});
    const auto bytes = std::as_bytes(std::span(&record, 1));
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
    frame_.push_back(std::byte{0});
  }
}

// The pickler does this before each object, and nowhere else.
void IndexPickler::end_full_frame() {
  if (frame_.size() >= kFrameSize) close_frame();
}

void IndexPickler::close_frame() {
  if (frame_.size() >= kSmallestFrameSize) {
    std::array<std::byte, 9> head{std::byte{static_cast<uint8_t>(Opcode::kFrame)}};
    const uint64_t size = frame_.size();
    std::memcpy(head.data() + 1, &size, sizeof size);
    sink_(head);
  }
  sink_(frame_);
  frame_.clear();
}

}  // namespace

void write_pickle(const IndexEntries& source, const ByteSink& sink) {
  IndexPickler(source, sink).run();
}

}  // namespace ffrfs
