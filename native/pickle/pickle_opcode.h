// The opcodes of pickle, protocols 0 to 5: an enum of the ones that an index has, and the names of
// all.
// (See CPython's Lib/pickletools.py.)

#pragma once

#include <cstdint>
#include <string>

namespace ffrfs {

enum class Opcode : uint8_t {
  // frame
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  // the class OrderedDict, and its call
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kEmptyTuple = ')',
  kMark = '(',
  kTuple = 't',
  kReduce = 'R',
  kSetitem = 's',
  kSetitems = 'u',
  // memo
  kPut = 'p',
  kBinput = 'q',
  kLongBinput = 'r',
  kMemoize = 0x94,
  kGet = 'g',
  kBinget = 'h',
  kLongBinget = 'j',
  // str
  kUnicode = 'V',
  kShortBinunicode = 0x8c,
  kBinunicode = 'X',
  kBinunicode8 = 0x8d,
  // int
  kInt = 'I',
  kBinint = 'J',
  kBinint1 = 'K',
  kBinint2 = 'M',
  kLong = 'L',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  // accepted only to name the class in the error
  kInst = 'i',
};

// Returns e.g. "REDUCE"; "0x07" for a byte that is not an opcode.
[[nodiscard]] std::string opcode_name(uint8_t opcode);

// Returns whether the opcode imports or calls something, or asks the reader for an object.
[[nodiscard]] bool opcode_runs_code(uint8_t opcode);

}  // namespace ffrfs
