// native/tree/pickle_index with hostile and with damaged bytes: whatever they are, the result is
// a tree or FormatError, and the memory for it stays in proportion to the bytes.

#include <doctest/doctest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "damage.h"
#include "io/error.h"
#include "pickles.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

std::atomic<size_t> allocated_bytes{0};
std::atomic<size_t> peak_bytes{0};

void* allocate(size_t size) noexcept {
  void* memory = std::malloc(size);
  if (memory == nullptr) return nullptr;
  const size_t now = allocated_bytes += malloc_usable_size(memory);
  if (now > peak_bytes) peak_bytes = now;  // no race: there is only one thread
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) allocated_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// Counts here; the sanitizer's malloc underneath checks.
void* operator new(size_t size) {
  void* memory = allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }

namespace {

// Gives `head`, then `body` `count` times, then `tail`. They are made while they are read.
class Repeated : public ByteSource {
 public:
  Repeated(Bytes head, const Bytes& body, uint64_t count, Bytes tail)
      : head_(std::move(head)), tail_(std::move(tail)), count_(count) {
    while (bodies_.size() < 10'000) {
      bodies_ += body;
      ++per_piece_;
    }
    body_size_ = body.size();
  }

  [[nodiscard]] std::span<const std::byte> next() override {
    if (!head_given_) {
      head_given_ = true;
      if (!head_.empty()) return view(head_);
    }
    if (count_ > 0) {
      const uint64_t now = std::min(count_, per_piece_);
      count_ -= now;
      return view(bodies_).first(now * body_size_);
    }
    return view(std::exchange(tail_given_, true) ? nothing_ : tail_);
  }

 private:
  const Bytes head_;
  const Bytes tail_;
  const Bytes nothing_;
  Bytes bodies_;
  size_t body_size_ = 0;
  uint64_t per_piece_ = 0;
  uint64_t count_;
  bool head_given_ = false;
  bool tail_given_ = false;
};

constexpr size_t kMegabyte = size_t{1} << 20;

// Runs `read` and returns how much more memory was in use at the peak than before.
template <typename Read> size_t peak_of(Read read) {
  const size_t before = allocated_bytes;
  peak_bytes = before;
  read();
  return peak_bytes - before;
}

void check_refused(ByteSource& source, const char* reason, size_t limit_bytes) {
  CAPTURE(reason);
  std::string text;
  const size_t peak = peak_of([&] {
    try {
      (void)read_pickle_index(source, 1000, "packed.ffr");
    } catch (const FormatError& error) {
      text = error.what();
    }
  });
  CAPTURE(text);
  CHECK(text.find(reason) != std::string::npos);
  CHECK(text.size() < 500);
  CHECK(peak < limit_bytes);
}

void check_refused(const Bytes& pickle, const char* reason) {
  Pieces source(pickle, 1000);
  check_refused(source, reason, kMegabyte);
}

// Return a pickle that puts a folder into the innermost one `count` times, then sets the items.
Bytes nested(size_t count, bool with_marks) {
  Bytes pickle = folder();
  for (size_t i = 0; i < count; ++i) pickle += (with_marks ? "(" : "") + name("d") + folder();
  if (with_marks) pickle += "(u";
  return pickle + Bytes(count, with_marks ? 'u' : 's') + ".";
}

// Return whether the pickle gives a tree, which must be consistent; otherwise it is a FormatError.
bool reads_or_refuses(const Bytes& pickle, uint64_t record_count, size_t piece_size) {
  try {
    const auto tree = read_pickle(pickle, record_count, piece_size);
    const Listing found = listing(*tree);
    REQUIRE(found.size() + 1 == tree->file_count() + tree->directory_count());
    for (const auto& [path, record] : found) REQUIRE((!record || *record < record_count - 1));
    return true;
  } catch (const FormatError& error) {
    REQUIRE(std::string_view(error.what()).starts_with("packed.ffr: "));
    return false;
  }
}

}  // namespace

TEST_CASE("endless opcodes are refused before they fill the memory") {
  struct Case {
    Bytes head;
    Bytes body;
    const char* reason;
  };
  const Case cases[] = {
      {"", "(", "more than 1024 directories deep (opcode MARK"},
      {folder(), "(", "more than 1024 directories deep (opcode MARK"},
      {"", ")", "more values wait"},
      {"", number(1), "more values wait"},
      {"", folder(), "more values wait"},
      {name("a") + "\x94", Bytes("h\0", 2), "more values wait"},
      {name("a"), "\x94", "nothing new to memoize"},
      {"", "\x80\x04", "without STOP"},
      {"", "\x95" + Bytes(8, '\xff'), "without STOP"},
      {"V", "x", "a line that is longer"},
      {"I", "1", "a line that is longer"},
      {"c", "x", "a line that is longer"},
      {folder() + "(", name("d") + folder(), "more values wait"},
      {folder(), name("d") + folder() + "(", "more than 1024 directories deep (opcode MARK"},
  };
  for (const Case& hostile : cases) {
    Repeated source(hostile.head, hostile.body, 10'000'000, "");
    // The stack at its limit takes 16 MB, and 24 while it grows; each name on it takes some bytes.
    check_refused(source, hostile.reason, 128 * kMegabyte);
  }
}

TEST_CASE("huge numbers in few bytes take hardly any memory") {
  const Bytes huge4(4, '\xff');
  const Bytes huge8(8, '\xff');
  check_refused(name("a") + "r" + huge4, "memo number 4294967295 out of turn");
  check_refused(name("a") + "p18446744073709551615\n", "is no number");
  check_refused(name("a") + "p9223372036854775807\n", "out of turn");
  check_refused("j" + huge4, "memo number 4294967295 is not there");
  check_refused("\x8d" + Bytes(7, '\0') + "\x80", "a string of 9223372036854775808 bytes");
  check_refused("\x8d" + huge8, "a string of 18446744073709551615 bytes");
  check_refused("X" + huge4, "a string of 4294967295 bytes");
  check_refused("\x8b" + huge4, "a number that is no record's");
  check_refused("\x95" + huge8 + folder(), "without STOP");
  CHECK(reads_or_refuses("\x95" + huge8 + one_file("a"), 1000, 1000));
}

TEST_CASE("folders nest 1024 deep and no deeper") {
  for (const bool with_marks : {false, true}) {
    CAPTURE(with_marks);
    const auto tree = read_pickle(nested(1024, with_marks), 1);
    CHECK(tree->directory_count() == 1025);
    CHECK(tree->path(1025).size() == 2 * 1024 - 1);
    for (const size_t depth : {1025, 2000, 20'000}) {
      const Bytes pickle = nested(depth, with_marks);
      Pieces source(pickle, 1000);
      check_refused(source, "more than 1024 directories deep", 4 * kMegabyte);
    }
  }
}

TEST_CASE("a million entries of one name are refused within 96 MiB of memory") {
  // Each entry has 5 bytes in the pickle (5 MB in all), and takes 16 in the list and 4 in its
  // order.
  Repeated source(folder() + name("a") + "\x94" + "K" + Bytes(1, '\0') + "s", Bytes("h\0K\0s", 5),
                  1'000'000, ".");
  check_refused(source, "\"a\": the same name twice", 96 * kMegabyte);
}

TEST_CASE("a pickle of zeros is refused whatever its first byte is") {
  for (int first = 0; first < 256; ++first) {
    for (const size_t zeros : {0, 1, 100}) {
      const Bytes pickle = Bytes(1, static_cast<char>(first)) + Bytes(zeros, '\0');
      CHECK_FALSE(reads_or_refuses(pickle, 1000, 1000));
    }
  }
}

TEST_CASE("a damaged golden index gives a tree or an error, nothing else") {
  const auto [golden, record_count] = golden_index();
  REQUIRE(reads_or_refuses(golden, record_count, 1 << 20));
  size_t tree_count = 0;
  for (uint64_t seed = 0; seed < seed_count(); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Bytes bytes = damaged(golden, random);
    const size_t piece_size = seed % 10 == 0 ? 1 + random() % 50 : 1 << 20;
    bool is_tree = false;
    const size_t peak = peak_of(
        [&, count = record_count] { is_tree = reads_or_refuses(bytes, count, piece_size); });
    tree_count += is_tree;
    REQUIRE(peak < kMegabyte);
  }
  CHECK(tree_count > seed_count() / 20);
  CHECK(tree_count < seed_count() - seed_count() / 20);
}

TEST_CASE("a damaged pickle of any protocol gives a tree or an error") {
  for (const std::string_view hex : kSampleHex) {
    const Bytes sample = from_hex(hex);
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      CAPTURE(hex);
      CAPTURE(seed);
      Random random(seed);
      (void)reads_or_refuses(damaged(sample, random), kSampleRecordCount, 1 + seed % 40);
    }
  }
}
