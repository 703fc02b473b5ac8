// FolderWalk: the names in a folder, and what stat() says about them.

#include "entries/folder_walk.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <string>

#include "io/error.h"
#include "scratch.h"

namespace fs = std::filesystem;
using namespace ffrfs;
using namespace ffrfs::test;

namespace {

FileDescriptor opened(const TemporaryFolder& folder) {
  return FileDescriptor(::open((folder / "").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

std::map<std::string, FolderWalk::Entry> all_of(const TemporaryFolder& folder) {
  const FileDescriptor fd = opened(folder);
  FolderWalk walk(fd.get(), folder / "");
  std::map<std::string, FolderWalk::Entry> found;
  while (true) {
    const auto& part = walk.next();
    if (part.empty()) return found;
    for (const auto& entry : part) CHECK(found.emplace(entry.name, entry).second);
  }
}

}  // namespace

TEST_CASE("a walk finds every name once, and does not follow links") {
  const TemporaryFolder folder;
  folder.write("file", "12345");
  fs::create_directory(folder / "folder");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("nothing", folder / "dangling");
  const auto found = all_of(folder);
  REQUIRE(found.size() == 4);
  CHECK(S_ISREG(found.at("file").info.st_mode));
  CHECK(found.at("file").info.st_size == 5);
  CHECK(S_ISDIR(found.at("folder").info.st_mode));
  CHECK(S_ISLNK(found.at("link").info.st_mode));
  CHECK(S_ISLNK(found.at("dangling").info.st_mode));
  for (const auto& [name, entry] : found) CHECK(entry.is_known);
}

TEST_CASE("a folder of more names than one part holds is listed by several threads") {
  const TemporaryFolder folder;
  size_t made = 0;
  for (size_t count : {1, 127, 128, 300, 4500}) {
    for (; made < count; ++made) folder.write(std::to_string(made), Bytes(made % 7, 'x'));
    const auto found = all_of(folder);
    REQUIRE(found.size() == count);
    for (size_t i = 0; i < count; ++i) {
      const auto& entry = found.at(std::to_string(i));
      REQUIRE(entry.is_known);
      REQUIRE(static_cast<size_t>(entry.info.st_size) == i % 7);
    }
  }
}

TEST_CASE("a walk of an empty folder finds no names") {
  const TemporaryFolder folder;
  CHECK(all_of(folder).empty());
}

TEST_CASE("walking something that is no folder fails with an error that names it") {
  const TemporaryFolder folder;
  const FileDescriptor file(::open(folder.write("file", "").c_str(), O_RDONLY | O_CLOEXEC));
  try {
    FolderWalk walk(file.get(), "the file");
    FAIL("listed a file");
  } catch (const StorageError& error) {
    CHECK(error.path() == "the file");
    CHECK(error.code() == ENOTDIR);
  }
}
