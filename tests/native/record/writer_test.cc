// Writer, StagedFile and FilePacker: which files are on the disk afterwards, and which are not.

#include "record/writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <numeric>
#include <span>
#include <string>
#include <thread>

#include "io/error.h"
#include "scratch.h"
#include "threads.h"

namespace fs = std::filesystem;
using namespace ffrfs;
using namespace ffrfs::test;

namespace {

const FilePacker::Tick kNoTick = [](uint64_t, uint64_t) {};

[[nodiscard]] auto entry_count(const TemporaryFolder& folder) {
  return std::distance(fs::directory_iterator(folder / ""), fs::directory_iterator());
}

// Sizes on both sides of every boundary in the writer.
std::vector<Bytes> records_of_all_sizes() {
  std::vector<Bytes> records;
  for (const size_t size : {0, 1, 4095, 4096, 4097, 131071, 131072, 131073, 0, (1 << 20) - 1,
                            1 << 20, (1 << 20) + 1, 3, (3 << 20) + 5}) {
    records.push_back(pattern(size, static_cast<uint32_t>(records.size())));
  }
  return records;
}

// A list in memory.
struct Files : FileList {
  explicit Files(std::vector<FileToPack> list) : files(std::move(list)) {}

  [[nodiscard]] uint64_t count() const override { return files.size(); }
  [[nodiscard]] uint64_t size(uint64_t number) const override { return files[number].size; }
  [[nodiscard]] FileToPack file(uint64_t number) const override { return files[number]; }

  std::vector<FileToPack> files;
};

Files make_files(const TemporaryFolder& folder, const std::vector<Bytes>& contents) {
  std::vector<FileToPack> files;
  for (const Bytes& data : contents) {
    files.push_back({folder.write(std::to_string(files.size()), data), data.size()});
  }
  return Files(std::move(files));
}

int64_t mtime_ns(const std::string& path) {
  struct stat info{};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

// Runs `work` in a child; returns whether it returned true.
bool in_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in child: %s\n", error.what());
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void install(std::span<sock_filter> program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    throw std::runtime_error("no seccomp");
  }
}

// From here on this process behaves as on a file system without O_TMPFILE.
void forbid_tmpfile() {
  static_assert((O_TMPFILE & ~O_DIRECTORY) != 0);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  install(program);
}

// From here on the system call `number` fails with `error`.
void forbid_call(uint32_t number, uint32_t error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  install(program);
}

// No file of this process may grow beyond `size`, as on a full disk.
void limit_file_size(rlim_t size) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{size, RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("no rlimit");
}

}  // namespace

TEST_CASE("the writer writes the bytes of the format") {
  const TemporaryFolder folder;
  const auto records = records_of_all_sizes();
  Writer writer(folder / "x.ffr", records.size());
  for (const auto& record : records) writer.append(view(record));
  CHECK(writer.written() == records.size());
  CHECK(entry_count(folder) == 0);  // the file has no name before the end
  writer.finish();
  CHECK(content_of(folder / "x.ffr") == ffrecord(records));
  CHECK(entry_count(folder) == 1);
}

TEST_CASE("no records make a header of 12 bytes") {
  const TemporaryFolder folder;
  Writer(folder / "x.ffr", 0).finish();
  CHECK(content_of(folder / "x.ffr") == ffrecord({}));
}

TEST_CASE("the mode is what the umask leaves of 0666") {
  const TemporaryFolder folder;
  const mode_t before = umask(027);
  Writer(folder / "x.ffr", 0).finish();
  umask(before);
  struct stat info{};
  REQUIRE(stat((folder / "x.ffr").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);
}

TEST_CASE("a wrong number of records is an error and leaves no file") {
  const TemporaryFolder folder;
  const std::string record = "abc";
  SUBCASE("one too many: refused at once, the rest is still good") {
    Writer writer(folder / "x.ffr", 1);
    writer.append(view(record));
    CHECK_THROWS_AS(writer.append(view(record)), RecordCountError);
    writer.finish();
    CHECK(content_of(folder / "x.ffr") == ffrecord({record}));
  }
  SUBCASE("one too few") {
    folder.write("x.ffr", "before");
    Writer writer(folder / "x.ffr", 2);
    writer.append(view(record));
    CHECK_THROWS_AS(writer.finish(), RecordCountError);
    CHECK_THROWS_AS(writer.append(view(record)), WriterClosedError);
    CHECK(content_of(folder / "x.ffr") == "before");
  }
  SUBCASE("more than a file can hold") {
    CHECK_THROWS_AS(Writer(folder / "x.ffr", UINT64_MAX), RecordCountError);
    CHECK_THROWS_AS(Writer(folder / "x.ffr", UINT64_MAX / 12), RecordCountError);
  }
  CHECK(entry_count(folder) <= 1);
}

TEST_CASE("abort and the destructor leave the old file") {
  const TemporaryFolder folder;
  folder.write("x.ffr", "before");
  {
    Writer writer(folder / "x.ffr", 2);
    writer.append(view("abc"));
    SUBCASE("destructor") {}
    SUBCASE("abort, also twice") {
      writer.abort();
      writer.abort();
      CHECK_THROWS_AS(writer.finish(), WriterClosedError);
    }
  }
  CHECK(content_of(folder / "x.ffr") == "before");
  CHECK(entry_count(folder) == 1);
}

TEST_CASE("the old file is replaced only at the end") {
  const TemporaryFolder folder;
  folder.write("x.ffr", "before");
  Writer writer(folder / "x.ffr", 1);
  const std::string record = "abc";
  writer.append(view(record));
  CHECK(content_of(folder / "x.ffr") == "before");
  writer.finish();
  CHECK(content_of(folder / "x.ffr") == ffrecord({record}));
  CHECK(entry_count(folder) == 1);
}

TEST_CASE("the writer follows a link, as open() does") {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  elsewhere.write("real", "before");
  fs::create_symlink(elsewhere / "real", folder / "x.ffr");
  Writer(folder / "x.ffr", 0).finish();
  CHECK(fs::is_symlink(folder / "x.ffr"));
  CHECK(content_of(elsewhere / "real") == ffrecord({}));
  CHECK(entry_count(elsewhere) == 1);
  fs::remove(elsewhere / "real");
  fs::create_directory(folder / "d");
  fs::create_symlink("../x.ffr", folder / "d/y.ffr");
  Writer(folder / "d/y.ffr", 0).finish();  // the target of the target does not exist
  CHECK(content_of(elsewhere / "real") == ffrecord({}));
  CHECK(fs::is_symlink(folder / "x.ffr"));
}

TEST_CASE("a target that cannot be written is refused at the start") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "d");
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  const auto code = [&](const std::string& path) {
    try {
      Writer writer(path, 1);
    } catch (const StorageError& error) {
      CHECK(error.path() == path);
      return error.code();
    }
    return 0;
  };
  CHECK(code(folder / "d") == EISDIR);
  CHECK(code(folder / "d/") == EISDIR);
  CHECK(code(folder / "no/x.ffr") == ENOENT);
  CHECK(code(folder / "fifo") == EEXIST);
  CHECK(code("/dev/null") == EEXIST);
  fs::create_symlink("/dev/null", folder / "null");
  CHECK(code(folder / "null") == EEXIST);
  fs::create_symlink("loop", folder / "loop");
  CHECK(code(folder / "loop") == ELOOP);
  CHECK(code("") == ENOENT);
  CHECK(code(folder / std::string("a\0b", 3)) == EINVAL);
  CHECK(code(folder / std::string(300, 'x')) == ENAMETOOLONG);
  CHECK(entry_count(folder) == 4);
}

TEST_CASE("a target may have a name of 255 bytes") {
  const TemporaryFolder folder;
  const std::string path = folder / std::string(255, 'x');
  Writer(path, 0).finish();
  CHECK(content_of(path) == ffrecord({}));
}

TEST_CASE("without O_TMPFILE the bytes are first written under another name") {
  const TemporaryFolder folder;
  const auto records = records_of_all_sizes();
  CHECK(in_child([&] {
    forbid_tmpfile();
    {
      Writer dropped(folder / "x.ffr", 1);
    }
    if (entry_count(folder) != 0) return false;
    Writer writer(folder / "x.ffr", records.size());
    if (entry_count(folder) != 1 || fs::exists(folder / "x.ffr")) return false;
    // A child's copy of the object must not remove its parent's file.
    if (!in_child([&] { return writer.abort(), true; })) return false;
    for (const auto& record : records) writer.append(view(record));
    writer.finish();
    return true;
  }));
  CHECK(content_of(folder / "x.ffr") == ffrecord(records));
  CHECK(entry_count(folder) == 1);
}

TEST_CASE("without hard links a file that appears meanwhile is not replaced") {
  for (const bool has_noreplace : {true, false}) {
    const TemporaryFolder folder;
    CHECK(in_child([&] {
      forbid_tmpfile();
      forbid_call(__NR_linkat, EPERM);
      if (!has_noreplace) forbid_call(__NR_renameat2, EINVAL);
      Writer writer(folder / "x.ffr", 0);
      folder.write("x.ffr", "precious");
      try {
        writer.finish(false);
        return false;
      } catch (const StorageError& error) {
        if (error.code() != EEXIST || content_of(folder / "x.ffr") != "precious") return false;
      }
      Writer(folder / "new.ffr", 0).finish(false);
      return content_of(folder / "new.ffr") == ffrecord({});
    }));
    CHECK(entry_count(folder) == 2);
  }
}

TEST_CASE("a full disk is reported with the target's name and leaves nothing") {
  const TemporaryFolder folder;
  folder.write("x.ffr", "before");
  const std::string large = pattern(3 << 20, 1);
  const auto files = make_files(folder, {large, large});
  const auto names_target = [&](const std::function<void(Writer&)>& work) {
    return in_child([&] {
      limit_file_size(4 << 20);
      Writer writer(folder / "x.ffr", 2);
      try {
        work(writer);
      } catch (const StorageError& error) {
        return error.code() == EFBIG && error.path() == folder / "x.ffr";
      }
      return false;
    });
  };
  CHECK(names_target([&](Writer& writer) {
    for (int i = 0; i < 2; ++i) writer.append(view(large));
  }));
  CHECK(names_target([&](Writer& writer) { writer.append_files(files, 2, kNoTick); }));
  CHECK(content_of(folder / "x.ffr") == "before");
  CHECK(entry_count(folder) == 3);
}

TEST_CASE("several threads may append") {
  const TemporaryFolder folder;
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 200;
  Writer writer(folder / "x.ffr", kThreads * kEach);
  in_threads(kThreads, [&] {
    const std::string record = pattern(5000, 1);
    for (size_t i = 0; i < kEach; ++i) writer.append(view(record));
  });
  writer.finish();
  CHECK(content_of(folder / "x.ffr") ==
        ffrecord(std::vector<Bytes>(kThreads * kEach, pattern(5000, 1))));
}

TEST_CASE("files become records, in their order, with any number of threads") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  auto contents = records_of_all_sizes();
  for (uint32_t i = 0; i < 331; ++i) contents.push_back(pattern(i, i));
  auto files = make_files(sources, contents);
  // More files than a thread takes at a time.
  for (size_t i = 0; i < 2700; ++i) {
    files.files.push_back(files.files[14 + i % 331]);
    contents.push_back(contents[14 + i % 331]);
  }
  for (const size_t jobs : {0, 3, 16}) {
    Writer writer(folder / "x.ffr", contents.size() + 2);
    auto records = contents;
    records.insert(records.begin(), "first");
    records.emplace_back("last");
    writer.append(view(records.front()));
    uint64_t files_done = 0;
    uint64_t bytes_done = 0;
    writer.append_files(files, jobs, [&](uint64_t file_count, uint64_t byte_count) {
      CHECK(file_count >= files_done);
      files_done = file_count;
      bytes_done = byte_count;
    });
    CHECK(files_done == files.count());
    CHECK(bytes_done == std::transform_reduce(contents.begin(), contents.end(), uint64_t{0},
                                              std::plus<>(), [](auto& c) { return c.size(); }));
    writer.append(view(records.back()));
    writer.finish();
    const bool same = content_of(folder / "x.ffr") == ffrecord(records);
    CHECK(same);
  }
}

TEST_CASE("pieces of any size make one record") {
  const TemporaryFolder folder;
  const Bytes large = pattern((2 << 20) + 7, 1);
  Writer writer(folder / "x.ffr", 3);
  for (const size_t size : {size_t{1000}, size_t{1} << 20, large.size()}) {
    writer.append_pieces([&](const Writer::Sink& sink) {
      for (size_t at = 0; at < large.size(); at += size) {
        sink(view(large).subspan(at, std::min(size, large.size() - at)));
      }
    });
  }
  writer.finish();
  CHECK(content_of(folder / "x.ffr") == ffrecord({large, large, large}));
}

TEST_CASE("no file is made if the producer of pieces throws") {
  const TemporaryFolder folder;
  struct Interrupt {};
  Writer writer(folder / "x.ffr", 1);
  CHECK_THROWS_AS(writer.append_pieces([](const Writer::Sink& sink) {
    sink(view("abc"));
    throw Interrupt();
  }),
                  Interrupt);
  CHECK_THROWS_AS(writer.finish(), WriterClosedError);
  CHECK(entry_count(folder) == 0);
}

TEST_CASE("append_last() gets the checksums of all records before") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  // Sizes on both sides of a chunk's end; and a header of more than 64 KiB.
  const std::vector<Bytes> large{pattern((1 << 20) + 1, 1), pattern(2 << 20, 2),
                                 pattern(1 << 20, 3)};
  auto files = make_files(sources, {large[0], large[1], large[2], "x"});
  files.files.resize(6000, files.files.back());
  Writer writer(folder / "x.ffr", 6002);
  writer.append(view(large[0]));
  writer.append_files(files, 3, kNoTick);
  uint64_t end = 0;
  std::vector<uint32_t> header;
  writer.append_last([&](const Writer::Sink& sink, const Writer::Before& before) {
    end = before.end;
    header.assign(before.header_checksums.begin(), before.header_checksums.end());
    const auto records = before.chunks.records();
    REQUIRE(records.size() == 3);
    CHECK(records[0].record == 0);
    CHECK(records[1].record == 1);
    CHECK(records[2].record == 2);
    CHECK(records[2].first_chunk == 4);
    std::vector<uint32_t> expected;
    for (const Bytes& data : {large[0], large[0], large[1]}) {
      for (size_t at = 0; at < data.size(); at += 1 << 20) {
        expected.push_back(crc32c(view(data.substr(at, 1 << 20))));
      }
    }
    const bool same = std::ranges::equal(before.chunks.checksums(), expected);
    CHECK(same);
    sink(view("last"));
  });
  writer.finish();
  const Bytes file = content_of(folder / "x.ffr");
  CHECK(file.substr(end) == "last");
  Bytes masked = file.substr(0, 12 + 12 * 6002);
  masked.replace(0, 4, 4, '\0').replace(12 + 4 * 6001, 4, 4, '\0');
  REQUIRE(header.size() == 2);
  CHECK(header[0] == crc32c(view(masked.substr(0, 65536))));
  CHECK(header[1] == crc32c(view(masked.substr(65536))));
}

TEST_CASE("append_last() refuses a record that is not the last") {
  const TemporaryFolder folder;
  Writer writer(folder / "x.ffr", 2);
  CHECK_THROWS_AS(writer.append_last([](const auto&, const auto&) {}), RecordCountError);
}

TEST_CASE("append_files() accepts an empty list") {
  const TemporaryFolder folder;
  Writer writer(folder / "x.ffr", 0);
  writer.append_files(Files({}), 4, kNoTick);
  writer.finish();
  CHECK(content_of(folder / "x.ffr") == ffrecord({}));
}

TEST_CASE("more files than announced are refused, and the writer goes on") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  const auto files = make_files(sources, {"a", "b"});
  Writer writer(folder / "x.ffr", 1);
  CHECK_THROWS_AS(writer.append_files(files, 1, kNoTick), RecordCountError);
  writer.append_files(Files({files.files[0]}), 1, kNoTick);
  writer.finish();
  CHECK(content_of(folder / "x.ffr") == ffrecord({"a"}));
}

TEST_CASE("a file that differs from its listing is named and nothing is left") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  size_t size = 10;
  bool has_time = false;
  SUBCASE("small") {}
  SUBCASE("small, with its time") { has_time = true; }
  SUBCASE("large") { size = (2 << 20) + 10; }
  CAPTURE(size);
  auto files = make_files(sources, {"good", pattern(size, 1), "good"});
  const std::string path = files.files[1].path;
  if (has_time) files.files[1].mtime_ns = mtime_ns(path);
  const auto message = [&]() -> std::string {
    Writer writer(folder / "x.ffr", 3);
    try {
      writer.append_files(files, 2, kNoTick);
    } catch (const PackError& error) {
      CHECK_THROWS_AS(writer.finish(), WriterClosedError);
      return error.what();
    }
    return "";
  };
  const std::string was = path + ": changed size while it was packed (was " + std::to_string(size);
  SUBCASE("longer") {
    sources.write("1", pattern(size + 1, 1));
    CHECK(message() == was + " bytes, now " + std::to_string(size + 1) + ")");
  }
  SUBCASE("shorter") {
    sources.write("1", "x");
    CHECK(message() == was + " bytes, now 1)");
  }
  SUBCASE("as long, but of another time") {
    files.files[1].mtime_ns = mtime_ns(path) - 1;
    CHECK(message() == path + ": changed while it was packed; pack again");
  }
  SUBCASE("a FIFO") {
    fs::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK(message() == path + ": is no longer a regular file");
  }
  SUBCASE("gone") {
    fs::remove(path);
    Writer writer(folder / "x.ffr", 3);
    try {
      writer.append_files(files, 2, kNoTick);
      FAIL("packed a file that is gone");
    } catch (const StorageError& error) {
      CHECK(error.path() == path);
      CHECK(error.code() == ENOENT);
    }
  }
  SUBCASE("a size that is not the file's length, as in /proc") {
    files.files[1] = {"/proc/self/status", 0};
    if (has_time) files.files[1].mtime_ns = mtime_ns("/proc/self/status");
    CHECK(message() == "/proc/self/status: its size does not tell how much it holds (0 bytes)");
  }
  CHECK(entry_count(folder) == 0);
}

TEST_CASE("a large file that is changed while it is packed is refused") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  const auto files = make_files(sources, {Bytes(128 << 20, 'x')});
  Writer writer(folder / "x.ffr", 1);
  const FileToPack& file = files.files[0];
  std::latch meddling(1);
  std::jthread meddler([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const FileDescriptor fd(::open(file.path.c_str(), O_WRONLY));
      CHECK(pwrite(fd.get(), "y", 1, 0) == 1);
      if (!meddling.try_wait()) meddling.count_down();
    }
  });
  meddling.wait();
  CHECK_THROWS_WITH_AS(writer.append_files(files, 1, kNoTick),
                       (file.path + ": changed while it was packed; pack again").c_str(),
                       PackError);
}

TEST_CASE("the error names the first bad file of the list") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  auto files = make_files(sources, {"data"});
  files.files.resize(5000, files.files[0]);
  // A thread takes 1024 files at a time. 1024 begins a batch, so it may fail before the others.
  for (const size_t index : {1000, 1001, 1024, 4999}) {
    files.files[index].path = sources / std::to_string(index);
  }
  for (const size_t jobs : {1, 2, 8}) {
    Writer writer(folder / "x.ffr", files.count());
    try {
      writer.append_files(files, jobs, kNoTick);
      FAIL("packed files that are gone");
    } catch (const StorageError& error) {
      CHECK(error.path() == files.files[1000].path);
    }
  }
}

TEST_CASE("sizes whose sum overflows are refused before anything is read") {
  const TemporaryFolder folder;
  Writer writer(folder / "x.ffr", 2);
  const Files files({{"/nowhere/a", UINT64_MAX}, {"/nowhere/b", 2}});
  CHECK_THROWS_AS(writer.append_files(files, 1, kNoTick), StorageError);
}

TEST_CASE("an exception of the tick stops the work and reaches the caller") {
  const TemporaryFolder folder;
  const TemporaryFolder sources;
  const auto files = make_files(sources, {pattern(2 << 20, 1), "b"});
  struct Interrupt {};
  Writer writer(folder / "x.ffr", 2);
  CHECK_THROWS_AS(writer.append_files(files, 2, [](uint64_t, uint64_t) { throw Interrupt(); }),
                  Interrupt);
  CHECK_THROWS_AS(writer.finish(), WriterClosedError);
  CHECK(entry_count(folder) == 0);
}
