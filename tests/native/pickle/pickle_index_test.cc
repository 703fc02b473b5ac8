// native/tree/pickle_index: what it reads, and each of its refusals.

#include <doctest/doctest.h>

#include <fstream>

#include "io/error.h"
#include "pickles.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

struct Refusal {
  const char* label;
  Bytes pickle;
  const char* reason;
};

constexpr uint64_t kRecordCount = 11;  // 0 to 9 are files, 10 is the index

void check_refused(const Refusal& refusal) {
  CAPTURE(refusal.label);
  for (const size_t piece_size : {1, 1 << 20}) {
    try {
      (void)read_pickle(refusal.pickle, kRecordCount, piece_size);
      FAIL_CHECK("not refused");
    } catch (const UnsafeIndexError& error) {
      FAIL_CHECK(error.what());
    } catch (const FormatError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.starts_with("packed.ffr: bad index: "));
      CHECK(text.find(refusal.reason) != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
    }
  }
}

void check_unsafe(const Refusal& refusal) {
  CAPTURE(refusal.label);
  try {
    (void)read_pickle(refusal.pickle, kRecordCount);
    FAIL_CHECK("not refused");
  } catch (const UnsafeIndexError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.starts_with("packed.ffr: the index is a pickle that would run code: "));
    CHECK(text.find("it was not run") != std::string::npos);
    CHECK(text.find(refusal.reason) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.size() < 400);
  }
}

Bytes bytes(std::initializer_list<int> values) {
  Bytes made;
  for (const int value : values) made.push_back(static_cast<char>(value));
  return made;
}

Bytes file_with(const Bytes& value) { return folder(name("a") + value) + "."; }

}  // namespace

TEST_CASE("every protocol, optimized or not, gives the same tree") {
  for (const std::string_view hex : kSampleHex) {
    CAPTURE(hex);
    for (const size_t piece_size : {1, 2, 7, 1 << 20}) {
      CHECK(listing(*read_pickle(from_hex(hex), kSampleRecordCount, piece_size)) ==
            sample_listing());
    }
  }
}

TEST_CASE("the golden packed folder reads as its manifest says") {
  const auto [pickle, record_count] = golden_index();
  const Listing found = listing(*read_pickle(pickle, record_count));

  std::map<std::string, bool> manifest;  // path → whether it is a file
  std::ifstream lines(golden_folder() / "packed.manifest.json");
  for (std::string line; std::getline(lines, line);) {  // "PATH": null or "SHA-256"
    const size_t colon = line.rfind("\": ");
    if (colon != std::string::npos) manifest[line.substr(1, colon - 1)] = line[colon + 3] == '"';
  }
  CHECK(manifest.size() > 500);
  std::map<std::string, bool> kinds;
  std::vector<bool> seen(record_count - 1);
  for (const auto& [path, file] : found) {
    kinds[path] = file.has_value();
    if (file) seen.at(*file) = true;
  }
  CHECK(kinds == manifest);
  CHECK(std::find(seen.begin(), seen.end(), false) == seen.end());  // each record has a name
}

TEST_CASE("bytes behind STOP are read to the end, and may be anything") {
  const Bytes pickle = one_file("a") + Bytes(10'000, 'R');
  Pieces source(pickle, 100);
  CHECK(read_pickle_index(source, 2, "packed.ffr")->file_count() == 1);
  CHECK(source.ended());
}

TEST_CASE("an error at the end of the source reaches the caller") {
  struct Damaged : Pieces {
    using Pieces::Pieces;
    [[nodiscard]] std::span<const std::byte> next() override {
      const auto piece = Pieces::next();
      if (piece.empty()) throw ChecksumError("record 1");
      return piece;
    }
  };
  const Bytes pickle = one_file("a");
  Damaged source(pickle, 100);
  CHECK_THROWS_AS((void)read_pickle_index(source, 2, "packed.ffr"), ChecksumError);
}

TEST_CASE("an empty folder is read, and one whose file is the last record") {
  CHECK(listing(*read_pickle(folder() + ".", 1)).empty());
  CHECK(listing(*read_pickle(file_with("K\x09"), kRecordCount)) == Listing{{"a", 9}});
  CHECK(read_pickle(folder() + ".", 0)->directory_count() == 1);
}

TEST_CASE("a pickle cut short anywhere is refused") {
  for (const std::string_view hex : kSampleHex) {
    const Bytes whole = from_hex(hex);
    for (size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      CHECK_THROWS_WITH_AS((void)read_pickle(whole.substr(0, size), kSampleRecordCount, 16),
                           doctest::Contains("truncated"), FormatError);
    }
  }
}

TEST_CASE("record numbers out of range are refused with their path") {
  for (const Bytes& value :
       {bytes({'K', 10}), bytes({'M', 0, 1}), bytes({'J', 0xff, 0xff, 0xff, 0xff}), Bytes("I-5\n"),
        Bytes("L4294967296L\n"), Bytes("L-99999999999L\n"), bytes({0x8a, 1, 0xff}),
        bytes({0x8a, 2, 0xff, 0}), bytes({0x8a, 7, 0, 0, 0, 0, 0, 0, 4}),
        bytes({0x8b, 1, 0, 0, 0, 0x80})}) {
    check_refused({"number",
                   folder(name("d") + folder(name("ok") + number(1) + name("f") + value)) + ".",
                   "\"d/f\": record number"});
  }
  check_refused({"no files", folder(name("a") + bytes({'K', 10})) + ".",
                 "record number 10 is out of range: the file has 10 records besides its index"});
}

TEST_CASE("an error shows negative numbers as they are, and the first of several faults") {
  const Bytes negative = bytes({0x8a, 1, 0xfe});
  check_refused({"one byte", file_with(negative), "\"a\": record number -2 is out of range"});
  check_refused({"two faults", folder(name("a") + negative + name("b") + bytes({'K', 99})) + ".",
                 "\"a\": record number -2"});
}

TEST_CASE("no name may lead to the index, nor to any record of a file without records") {
  for (const uint64_t record_count : {0, 1}) {
    CHECK_THROWS_WITH_AS((void)read_pickle(one_file("a"), record_count),
                         doctest::Contains("the file has 0 records"), FormatError);
  }
  CHECK(read_pickle(one_file("a"), 2)->file_count() == 1);
}

TEST_CASE("all spellings of a number are read") {
  for (const Bytes& value : {bytes({'K', 7}), bytes({'M', 7, 0}), bytes({'J', 7, 0, 0, 0}),
                             Bytes("I7\n"), Bytes("L7L\n"), Bytes("L7\n"), bytes({0x8a, 1, 7}),
                             bytes({0x8a, 3, 7, 0, 0}), bytes({0x8b, 2, 0, 0, 0, 7, 0})}) {
    CHECK(listing(*read_pickle(file_with(value), kRecordCount)) == Listing{{"a", 7}});
  }
  CHECK(listing(*read_pickle(file_with(bytes({0x8a, 0})), kRecordCount)) == Listing{{"a", 0}});
}

TEST_CASE("values that are no record numbers are refused") {
  const std::vector<Refusal> refusals = {
      {"True, protocol 0", file_with("I01\n"), "a bool (opcode INT"},
      {"False, protocol 0", file_with("I00\n"), "a bool (opcode INT"},
      {"True", file_with("\x88"), "opcode NEWTRUE"},
      {"False", file_with("\x89"), "opcode NEWFALSE"},
      {"None", file_with("N"), "opcode NONE"},
      {"float", file_with("G12345678"), "opcode BINFLOAT"},
      {"float, protocol 0", file_with("F1.5\n"), "opcode FLOAT"},
      {"empty INT", file_with("I\n"), "\"\" is no number"},
      {"underscore", file_with("I1_0\n"), "\"1_0\" is no number"},
      {"hex", file_with("I0x7\n"), "is no number"},
      {"plus", file_with("I+7\n"), "is no number"},
      {"over int64", file_with("L9223372036854775808L\n"), "is no number"},
      {"2^60", file_with("L1152921504606846976L\n"), "a number that is no record's"},
      {"-2^63", file_with(bytes({0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 0x80})), "no record's"},
      {"nine bytes", file_with(bytes({0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1})), "no record's"},
      {"2^31 bytes", file_with(bytes({0x8b, 0, 0, 0, 0x80})), "no record's"},
      {"a str", file_with(name("b")), "\"a\": no int, no OrderedDict"},
      {"a tuple", file_with(")"), "\"a\": no int, no OrderedDict"},
      {"the class", file_with("ccollections\nOrderedDict\n"), "\"a\": no int, no OrderedDict"},
  };
  for (const Refusal& refusal : refusals) check_refused(refusal);
}

TEST_CASE("names that cannot be mounted are refused with their path") {
  const auto nested = [](std::string_view bad) {
    return folder(name("dir") + folder(name(bad) + number(0))) + ".";
  };
  check_refused({"empty", nested(""), "\"dir/\": an empty name"});
  check_refused({"dot", nested("."), "\"dir/.\": a name that every directory has"});
  check_refused({"dots", nested(".."), "\"dir/..\": a name that every directory has"});
  check_refused({"slash", nested("a/b"), "\"dir/a/b\": a name that contains '/'"});
  check_refused({"absolute", nested("/etc"), "a name that contains '/'"});
  check_refused({"NUL", nested({"a\0b", 3}), "\"dir/a\\x00b\": a name that contains NUL"});
  check_refused({"a folder's", folder(name("..") + folder()) + ".", "\"..\": a name that every"});
  check_refused({"control", folder(name("\x1b[2J\n") + bytes({'K', 10})) + ".", "\\x1b[2J\\x0a"});
  check_refused({"256", nested(std::string(256, 'x')), "more than 255 bytes (opcode BINUNICODE"});
  check_refused({"far too long", nested(std::string(70'000, 'x')), "a string of 70000 bytes"});
  check_refused(
      {"long line", folder() + "(V" + Bytes(70'000, 'x') + "\n", "a line that is longer"});
  check_refused(
      {"not UTF-8", nested("\xff"), "a name that is not UTF-8 (opcode BINUNICODE at byte"});
  check_refused({"high surrogate", nested("\xed\xa0\x80"), "surrogate that encodes no byte"});
  check_refused({"escape", folder() + "VA\\n\nK\x01s.", "a name with a bad escape"});
  check_refused({"short escape", folder() + "V\\u00\nK\x01s.", "a name with a bad escape"});
  check_refused({"escape of no hex", folder() + "V\\u00zz\nK\x01s.", "a name with a bad escape"});
  check_refused({"signed escape", folder() + "V\\u-001\nK\x01s.", "a name with a bad escape"});
  check_refused({"beyond Unicode", folder() + "V\\U00110000\nK\x01s.", "not UTF-8"});
  check_refused({"escaped pair", folder() + "V\\ud83d\\ude00\nK\x01s.", "encodes no byte"});
}

TEST_CASE("names of 255 bytes are read in every spelling") {
  std::string escaped;
  std::string surrogates;
  for (int i = 0; i < 255; ++i) escaped += "\\udcff";
  for (int i = 0; i < 255; ++i) surrogates += "\xed\xb3\xbf";
  const Listing ascii = {{std::string(255, 'x'), 0}};
  const Listing raw = {{std::string(255, '\xff'), 0}};
  CHECK(listing(*read_pickle(one_file(std::string(255, 'x')), 2)) == ascii);
  CHECK(listing(*read_pickle(one_file(surrogates), 2)) == raw);
  CHECK(listing(*read_pickle(folder() + "V" + escaped + "\nK" + Bytes(1, '\0') + "s.", 2, 1)) ==
        raw);
}

TEST_CASE("a name may be in two folders, but not twice in one") {
  const Bytes twice = name("a") + number(0) + name("b") + number(1) + name("a") + number(2);
  check_refused({"files", folder(name("d") + folder(twice)) + ".", "\"d/a\": the same name twice"});
  check_refused({"file and folder", folder(name("a") + number(0) + name("a") + folder()) + ".",
                 "\"a\": the same name twice"});
  check_refused(
      {"one byte, two spellings",
       folder(name("\xc3\xbc") + number(0) + name("\xed\xb3\x83\xed\xb2\xbc") + number(1)) + ".",
       "the same name twice"});
  const Bytes fine =
      folder(name("a") + folder(name("a") + number(0)) + name("b") + number(0)) + ".";
  const auto tree = read_pickle(fine, kRecordCount);
  CHECK(listing(*tree) == Listing{{"a", std::nullopt}, {"a/a", 0}, {"b", 0}});
  CHECK(tree->path(tree->file_of(0)) == "b");  // the name in the lower slot
}

TEST_CASE("a pickle that is no index is refused with the reason") {
  const std::vector<Refusal> refusals = {
      {"plain dict", "}.", "opcode EMPTY_DICT at byte 0"},
      {"plain dict inside", folder(name("a") + "}") + ".", "opcode EMPTY_DICT at byte 34 of"},
      {"dict of protocol 0", "(d.", "opcode DICT"},
      {"list", "].", "opcode EMPTY_LIST"},
      {"bytes", "C\x01x.", "opcode SHORT_BINBYTES"},
      {"str of Python 2", "U\x01x.", "opcode SHORT_BINSTRING"},
      {"OrderedDict of Python 2", "ccollections\nOrderedDict\n((lp1\n", "opcode LIST"},
      {"DUP", folder() + "2", "opcode DUP"},
      {"POP", folder() + "0", "opcode POP"},
      {"POP_MARK", folder() + "(1", "opcode POP_MARK"},
      {"TUPLE1", name("a") + "\x85", "opcode TUPLE1"},
      {"NEXT_BUFFER", "\x97", "opcode NEXT_BUFFER"},
      {"no opcode", "\x07", "opcode 0x07 at byte 0"},
      {"protocol 6", "\x80\x06", "protocol 6 is not known"},
      {"nothing left", ".", "not one OrderedDict"},
      {"two left", folder() + folder() + ".", "not one OrderedDict"},
      {"open mark", folder() + "(.", "not one OrderedDict"},
      {"an int left", "K\x01.", "not one OrderedDict"},
      {"class left", "ccollections\nOrderedDict\n.", "not one OrderedDict"},
      {"tuple with something", name("a") + "(" + name("b") + "t", "a tuple that is not empty"},
      {"SETITEM of two", folder() + name("a") + "s", "too few values"},
      {"SETITEM across MARK", folder() + name("a") + "(" + number(0) + "s", "too few values"},
      {"SETITEM on str", name("a") + name("b") + number(0) + "s", "items of no OrderedDict"},
      {"SETITEMS, no MARK", folder() + "u", "no MARK before it"},
      {"SETITEMS on nothing", "(u", "nothing before its MARK"},
      {"SETITEMS on MARK", folder() + "((u", "nothing before its MARK"},
      {"SETITEMS, odd", folder(name("a")), "a key without a value"},
      {"int as key", folder(number(0) + number(0)), "a key that is no str"},
      {"GET of nothing", "h\x05", "memo number 5 is not there"},
      {"GET -1", "g-1\n", "is not there"},
      {"PUT of nothing", bytes({'q', 0}), "nothing new to memoize"},
      {"PUT of a mark", folder() + "(" + bytes({'q', 0}), "nothing new to memoize"},
      {"PUT twice", name("a") + bytes({'q', 0, 'q', 1}), "nothing new to memoize"},
      {"PUT over another", name("a") + bytes({'q', 0}) + name("b") + bytes({'q', 0}),
       "out of turn"},
      {"PUT out of turn", name("a") + "q\x01", "memo number 1 out of turn"},
      {"PUT -1", name("a") + "p-1\n", "out of turn"},
      {"MEMOIZE of an int", number(0) + "\x94", "nothing new to memoize"},
      {"itself", folder() + bytes({0x94, '('}) + name("a") + bytes({'h', 0}) + "u.",
       "the same OrderedDict in two places (opcode BINGET"},
      {"shared", folder(name("a") + folder() + "\x94" + name("b") + bytes({'h', 0})) + ".",
       "the same OrderedDict in two places"},
  };
  for (const Refusal& refusal : refusals) check_refused(refusal);
}

TEST_CASE("a pickle that would run code is refused as unsafe") {
  const Bytes dictionary = folder();
  const std::vector<Refusal> refusals = {
      {"GLOBAL", "cos\nsystem\n(S'ls'\ntR.", "os.system (opcode GLOBAL at byte 0"},
      {"builtins", "c__builtin__\neval\n", "__builtin__.eval"},
      {"right name, wrong module", "cevil\nOrderedDict\n", "evil.OrderedDict"},
      {"right module, wrong name", "ccollections\ndefaultdict\n", "collections.defaultdict"},
      {"dotted", name("collections") + name("abc.os.system") + "\x93", "collections.abc.os.system"},
      {"STACK_GLOBAL", name("posix") + name("system") + "\x93)R.",
       "posix.system (opcode STACK_GLOBAL"},
      {"STACK_GLOBAL of int", number(0) + number(0) + "\x93", "whose name is no str"},
      {"escaped and shortened", "c\x1b[2J" + Bytes(1400, 'm') + "\nf\n", "\\x1b[2Jmmm"},
      {"INST", "(ios\nsystem\n.", "os.system (opcode INST"},
      {"INST of OrderedDict", "(icollections\nOrderedDict\n.", "opcode INST"},
      {"OBJ", "(ccollections\nOrderedDict\no.", "opcode OBJ"},
      {"NEWOBJ", "ccollections\nOrderedDict\n)\x81.", "opcode NEWOBJ at"},
      {"NEWOBJ_EX", "ccollections\nOrderedDict\n))\x92.", "opcode NEWOBJ_EX"},
      {"BUILD", dictionary + name("a") + "b.", "opcode BUILD"},
      {"EXT1", "\x82\x01.", "opcode EXT1"},
      {"EXT2", "\x83\x01\x01.", "opcode EXT2"},
      {"EXT4", "\x84\x01\x01\x01\x01.", "opcode EXT4"},
      {"PERSID", "Pid\n.", "opcode PERSID"},
      {"BINPERSID", name("id") + "Q.", "opcode BINPERSID"},
      {"REDUCE with a str", "ccollections\nOrderedDict\n" + name("a") + "R", "opcode REDUCE"},
      {"REDUCE of a dict", dictionary + ")R", "opcode REDUCE"},
  };
  for (const Refusal& refusal : refusals) check_unsafe(refusal);
}
