#include "pickle/pickle_index.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "io/error.h"
#include "pickle/pickle_bytes.h"
#include "pickle/pickle_fault.h"
#include "pickle/pickle_opcode.h"
#include "pickle/pickle_stack.h"
#include "tree/name.h"
#include "tree/tree_builder.h"

namespace ffrfs {
namespace {

using Kind = PickleValue::Kind;

class PickleMachine {
 public:
  PickleMachine(ByteSource& source, uint64_t record_limit, const std::string& file)
      : file_(file), bytes_(source), builder_(file, record_limit) {}

  // Returns the builder with the whole index. Throws FormatError, UnsafeIndexError.
  TreeBuilder run() &&;

 private:
  bool step();  // false after STOP

  void check_protocol(uint8_t protocol);
  void check_stop();

  void push_class(std::string_view module, std::string_view name);
  void read_class();
  void read_stack_class();
  void close_tuple();
  void call();
  void set_items(size_t items);
  void set_item(PickleValue dictionary, PickleValue key, PickleValue value);

  void push_utf8(uint64_t size);
  void push_name(const char* fault);
  void push_number(int64_t number);
  void push_decimal(std::string_view text);
  void push_bytes(uint64_t size);
  void put(uint64_t index, bool top_is_new);

  [[noreturn]] void refuse_opcode();
  [[nodiscard]] std::string place() const;

  const std::string& file_;
  PickleBytes bytes_;
  NameDecoder decoder_;
  PickleStack stack_;
  TreeBuilder builder_;
  uint8_t opcode_ = 0;  // the present opcode
  uint64_t opcode_offset_ = 0;
  bool top_is_new_ = false;  // made by the last opcode, and can be memoized
};

int64_t decimal(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    throw PickleFault(in_quotes(text) + " is no number");
  }
  return number;
}

uint64_t memo_index(std::string_view text) { return static_cast<uint64_t>(decimal(text)); }

TreeBuilder PickleMachine::run() && {
  try {
    while (step()) {
    }
  } catch (const UnsafePickleFault& fault) {
    throw UnsafeIndexError(file_, std::string("the index is a pickle that would run code: ") +
                                      fault.what() + place() +
                                      "; it was not run: open this file with no other program");
  } catch (const PickleFault& fault) {
    throw FormatError(file_, std::string("bad index: ") + fault.what() + place());
  }
  bytes_.drain();
  return std::move(builder_);
}

std::string PickleMachine::place() const {
  return " (opcode " + opcode_name(opcode_) + " at byte " + std::to_string(opcode_offset_) +
         " of the pickle)";
}

// clang-format off
bool PickleMachine::step() {
  const uint64_t offset = bytes_.offset();
  opcode_ = bytes_.byte();
  opcode_offset_ = offset;
  const bool top_is_new = std::exchange(top_is_new_, false);
  switch (static_cast<Opcode>(opcode_)) {
    case Opcode::kProto: check_protocol(bytes_.byte()); break;
    // A frame says how much to read at once; this reader does not need that.
    case Opcode::kFrame: static_cast<void>(bytes_.integer<uint64_t>()); break;
    case Opcode::kStop: check_stop(); return false;

    case Opcode::kGlobal: read_class(); break;
    case Opcode::kStackGlobal: read_stack_class(); break;
    case Opcode::kInst: read_class(); refuse_opcode();
    case Opcode::kEmptyTuple: stack_.push(PickleValue(Kind::kEmptyTuple)); break;
    case Opcode::kMark: stack_.push_mark(); break;
    case Opcode::kTuple: close_tuple(); break;
    case Opcode::kReduce: call(); break;
    case Opcode::kSetitem: set_items(stack_.from_top(3) + 1); break;
    case Opcode::kSetitems: set_items(stack_.pop_mark()); break;

    case Opcode::kPut: put(memo_index(bytes_.line()), top_is_new); break;
    case Opcode::kBinput: put(bytes_.byte(), top_is_new); break;
    case Opcode::kLongBinput: put(bytes_.integer<uint32_t>(), top_is_new); break;
    case Opcode::kMemoize: put(stack_.memo_size(), top_is_new); break;
    case Opcode::kGet: stack_.get(memo_index(bytes_.line())); break;
    case Opcode::kBinget: stack_.get(bytes_.byte()); break;
    case Opcode::kLongBinget: stack_.get(bytes_.integer<uint32_t>()); break;

    case Opcode::kUnicode: push_name(decoder_.raw_unicode_escape(bytes_.line())); break;
    case Opcode::kShortBinunicode: push_utf8(bytes_.byte()); break;
    case Opcode::kBinunicode: push_utf8(bytes_.integer<uint32_t>()); break;
    case Opcode::kBinunicode8: push_utf8(bytes_.integer<uint64_t>()); break;

    case Opcode::kInt: case Opcode::kLong: push_decimal(bytes_.line()); break;
    case Opcode::kBinint: push_number(bytes_.integer<int32_t>()); break;
    case Opcode::kBinint1: push_number(bytes_.byte()); break;
    case Opcode::kBinint2: push_number(bytes_.integer<uint16_t>()); break;
    case Opcode::kLong1: push_bytes(bytes_.byte()); break;
    case Opcode::kLong4: push_bytes(bytes_.integer<uint32_t>()); break;

    default: refuse_opcode();
  }
  return true;
}
// clang-format on

void PickleMachine::refuse_opcode() {
  if (opcode_runs_code(opcode_)) throw UnsafePickleFault("more than a call of OrderedDict()");
  throw PickleFault("not a part of nested OrderedDicts of str to int");
}

void PickleMachine::check_protocol(uint8_t protocol) {
  if (protocol > 5) throw PickleFault("protocol " + std::to_string(protocol) + " is not known");
}

void PickleMachine::check_stop() {
  if (stack_.has_marks() || stack_.size() != 1 || stack_[0].kind() != Kind::kDictionary) {
    throw PickleFault("what it leaves is not one OrderedDict");
  }
}

// OrderedDict

void PickleMachine::push_class(std::string_view module, std::string_view name) {
  if (module != "collections" || name != "OrderedDict") {
    throw UnsafePickleFault(printable(std::string(module) + "." + std::string(name)));
  }
  stack_.push(PickleValue(Kind::kOrderedDict));
  top_is_new_ = true;
}

void PickleMachine::read_class() {
  const std::string module(bytes_.line());
  push_class(module, bytes_.line());
}

void PickleMachine::read_stack_class() {
  const size_t at = stack_.from_top(2);
  if (stack_[at].kind() != Kind::kName || stack_[at + 1].kind() != Kind::kName) {
    throw UnsafePickleFault("a class whose name is no str");
  }
  const std::string_view module = builder_.name(stack_[at].ref());
  const std::string_view name = builder_.name(stack_[at + 1].ref());
  stack_.cut(at);
  push_class(module, name);
}

void PickleMachine::close_tuple() {
  // Protocol 0 has no other spelling of ().
  if (stack_.pop_mark() != stack_.size()) throw PickleFault("a tuple that is not empty");
  stack_.push(PickleValue(Kind::kEmptyTuple));
}

void PickleMachine::call() {
  const size_t at = stack_.from_top(2);
  if (stack_[at].kind() != Kind::kOrderedDict || stack_[at + 1].kind() != Kind::kEmptyTuple) {
    throw UnsafePickleFault("a call of something else than OrderedDict()");
  }
  stack_.cut(at);
  // A dict is always added to one that is deeper in the stack, and so older: no cycles. And the
  // memo never returns a dict: no sharing.
  stack_.push(PickleValue(Kind::kDictionary, builder_.add_directory()));
  top_is_new_ = true;
}

// Puts all values from position `items` on into the dict before them.
void PickleMachine::set_items(size_t items) {
  const PickleValue dictionary = stack_[items - 1];
  if (dictionary.kind() != Kind::kDictionary) throw PickleFault("items of no OrderedDict");
  if ((stack_.size() - items) % 2 != 0) throw PickleFault("a key without a value");
  for (size_t i = items; i < stack_.size(); i += 2) {
    set_item(dictionary, stack_[i], stack_[i + 1]);
  }
  stack_.cut(items);
}

void PickleMachine::set_item(PickleValue dictionary, PickleValue key, PickleValue value) {
  if (key.kind() != Kind::kName) throw PickleFault("a key that is no str");
  if (value.kind() == Kind::kNumber) {
    builder_.place_file(dictionary.ref(), key.ref(), value.payload());
  } else if (value.kind() == Kind::kDictionary) {
    builder_.place_directory(dictionary.ref(), key.ref(), value.ref());
  } else {
    throw PickleFault(in_quotes(builder_.name(key.ref())) + ": no int, no OrderedDict");
  }
}

// str and int

void PickleMachine::push_utf8(uint64_t size) { push_name(decoder_.utf8(bytes_.take(size))); }

// Pushes the decoder's name, unless there is a fault.
void PickleMachine::push_name(const char* fault) {
  if (fault != nullptr) throw PickleFault(fault);
  stack_.push(PickleValue(Kind::kName, builder_.add_name(decoder_.name())));
  top_is_new_ = true;
}

void PickleMachine::push_number(int64_t number) {
  if (number >= PickleValue::kPayloadLimit || number <= -PickleValue::kPayloadLimit) {
    throw PickleFault("a number that is no record's: " + std::to_string(number));
  }
  stack_.push(PickleValue(Kind::kNumber, number));
}

void PickleMachine::push_decimal(std::string_view text) {
  if (static_cast<Opcode>(opcode_) == Opcode::kLong) {
    if (text.ends_with('L')) text.remove_suffix(1);
  } else if (text == "00" || text == "01") {
    throw PickleFault("a bool");
  }
  push_number(decimal(text));
}

// Reads a little-endian int of `size` bytes, with the sign in the last.
void PickleMachine::push_bytes(uint64_t size) {
  if (size > sizeof(int64_t)) throw PickleFault("a number that is no record's");
  const std::string_view bytes = bytes_.take(size);
  const bool is_negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
  uint64_t number = is_negative ? ~uint64_t{0} : 0;
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
    number = number << 8 | static_cast<unsigned char>(*byte);
  }
  push_number(static_cast<int64_t>(number));
}

// A pickler memoizes an object once, directly after making it: so the memo has at most as many
// entries as there are objects.
void PickleMachine::put(uint64_t index, bool top_is_new) {
  if (!top_is_new) throw PickleFault("nothing new to memoize");
  stack_.put(index);
}

}  // namespace

std::unique_ptr<PickleTree> read_pickle_index(ByteSource& source, uint64_t record_count,
                                              const std::string& file) {
  const uint64_t record_limit = record_count == 0 ? 0 : record_count - 1;
  // Destroys the machine, with its stack and memo, before the tables are made.
  TreeBuilder builder = PickleMachine(source, record_limit, file).run();
  return builder.finish();
}

}  // namespace ffrfs
