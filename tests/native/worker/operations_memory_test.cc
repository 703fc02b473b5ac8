// native/worker: a request that had to wait is answered even if memory is short when its bytes come.

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "example/example_tree.h"
#include "examples.h"
#include "frames.h"
#include "stalling_file.h"
#include "worker/operations.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

thread_local bool counts = false;
thread_local uint64_t allocations = 0;
thread_local uint64_t failing = 0;  // number of the allocation that fails

}  // namespace

// Without an exception, as std::stable_sort() wants it.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return counts && ++allocations == failing ? nullptr : std::malloc(size);
}
void* operator new(size_t size) {
  void* memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

struct Answers final : fuse::AnswerSink {
  void answer(const fuse::Reply&, int error, fuse::Parts) noexcept override {
    ++count;
    last = error;
  }
  int count = 0;
  int last = -1;
};

}  // namespace

TEST_CASE("whichever allocation fails when a record has come, a request for it gets one answer") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("x.tfrecord", framed({example(entry("a", bytes_list({"b"})))}));
  const Bytes name(100, 'n');
  StallingFile::Stall stall;
  stall.is_stalled = false;
  const OpenSource open = [&](const std::string& opened) {
    return std::make_unique<const StallingFile>(opened, 0, stall);
  };
  const Ino top = ExampleTree::folder_ino(0);
  const fuse::Request lookup{
      .opcode = fuse::Opcode::kLookup, .unique = 1, .ino = top, .name = name};
  const fuse::Request list{
      .opcode = fuse::Opcode::kReaddirplus, .unique = 1, .ino = top, .size = 4096};
  const fuse::Request part{.opcode = fuse::Opcode::kRead, .unique = 1, .ino = top + 1, .size = 99};
  const fuse::Request made{.opcode = fuse::Opcode::kRead, .unique = 1, .ino = top + 2, .size = 99};
  for (const fuse::Request& request : {lookup, list, part, made}) {
    CAPTURE(request.ino);
    CAPTURE(static_cast<int>(request.opcode));
    bool has_failed = true;
    for (failing = 1; has_failed; ++failing) {
      CAPTURE(failing);
      allocations = 0;
      Volume volume({path}, {.packs = {.open_source = open}});
      Operations operations(volume, {});
      Answers answers;
      operations.handle(request, fuse::Reply(answers, 1, {}));
      REQUIRE(answers.count == 0);
      for (int wakes = 0; answers.count == 0 && wakes < 600; ++wakes) {
        volume.wait(100);
        counts = true;
        CHECK_NOTHROW(volume.poll());
        counts = false;
      }
      has_failed = allocations >= failing;
      CHECK(answers.count == 1);
      CHECK((answers.last == 0 || (has_failed && answers.last == ENOMEM)));
    }
  }
}
