// native/record: the sidecar of a pack: where it may lie, and when it is trusted.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "index_file.h"
#include "record/ffrecord_shard.h"
#include "record/index_map.h"
#include "record/sidecar_path.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

const std::vector<Bytes> kNames{"a", "bb", "ccc"};

struct Cache {
  explicit Cache(const std::string& folder) { setenv("XDG_CACHE_HOME", folder.c_str(), 1); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache() { setenv("XDG_CACHE_HOME", "/nonexistent", 1); }
};
// A cache folder that nobody has.
const bool has_no_cache = setenv("XDG_CACHE_HOME", "/nonexistent", 1) == 0;

// A pack without an index of its own, as the reference implementation writes it, and its sidecars.
struct PlainPack {
  explicit PlainPack(const std::vector<Bytes>& names = kNames) : sections(flat_sections(names)) {
    std::vector<Bytes> records = names;
    records.push_back(Bytes(kFolderMagic) + "\x80\x04}.");
    content = ffrecord(records);
    path = folder.write("p.ffr", content);
  }

  [[nodiscard]] Bytes sidecar() const { return sidecar_bytes(path, content, sections); }
  [[nodiscard]] FfrecordShard open() const { return FfrecordShard(path, IndexUse::kIfSound); }

  void check_ignored(const Bytes& reason) const {
    CAPTURE(reason);
    const FfrecordShard shard = open();
    CHECK(shard.index() == nullptr);
    CHECK(shard.warning().find(reason) != Bytes::npos);
    CHECK(
        shard.warning().ends_with("; make it anew: ffrfs index " + path + "; ignored until then"));
    CHECK(shard.is_index_stale() == (reason.find("(its ") != Bytes::npos));
    CHECK(shard.offsets().size() == shard.count() + 1);
  }

  const TemporaryFolder folder;
  Sections sections;
  Bytes content;
  std::string path;
};

}  // namespace

TEST_CASE("a sidecar beside the pack is used") {
  REQUIRE(has_no_cache);
  for (const size_t count : {3UL, 20'000UL}) {
    const PlainPack pack(many(count));
    CHECK(pack.open().index() == nullptr);
    pack.folder.write("p.ffr.idx", pack.sidecar());
    const FfrecordShard shard = pack.open();
    REQUIRE(shard.index() != nullptr);
    CHECK(shard.warning().empty());
    CHECK(shard.index()->is_sidecar());
    CHECK(shard.index()->path() == pack.path + ".idx");
    check_same_extents(shard, FfrecordShard(pack.path));
    CHECK(FfrecordShard(pack.path).index() == nullptr);
  }
}

TEST_CASE("a sidecar in the cache is used, unless another user owns it") {
  const PlainPack pack;
  const TemporaryFolder home;
  const Cache cache(home / "cache");
  const auto paths = index_sidecar_paths(pack.path);
  REQUIRE(paths.size() == 2);
  CHECK(paths[0] == pack.path + ".idx");
  CHECK(paths[1].starts_with(home / "cache/ffrfs/index/"));
  CHECK(paths[1].size() == (home / "cache/ffrfs/index/").size() + 32 + 4);
  // The same, whatever path names the pack.
  std::filesystem::create_symlink(pack.path, pack.folder / "link.ffr");
  CHECK(index_sidecar_paths(pack.folder / "link.ffr")[1] == paths[1]);
  CHECK(index_sidecar_paths(pack.folder / "./p.ffr")[1] == paths[1]);

  std::filesystem::create_directories(home / "cache/ffrfs/index");
  std::ofstream(paths[1], std::ios::binary) << pack.sidecar();
  CHECK(pack.open().index()->path() == paths[1]);

  // A stale sidecar beside the pack does not stop the one in the cache from being used.
  pack.folder.write("p.ffr.idx", "?");
  const FfrecordShard shard = pack.open();
  CHECK(shard.index()->path() == paths[1]);
  CHECK(shard.warning().empty());
  std::filesystem::remove(paths[0]);

  if (geteuid() == 0) {  // only root can change the owner of a file
    REQUIRE(chown(paths[1].c_str(), 12345, 12345) == 0);
    const FfrecordShard without = pack.open();
    CHECK(without.index() == nullptr);
    CHECK(without.warning() ==
          paths[1] + ": belongs to another user; remove it; ignored until then");
  }
}

TEST_CASE("a stranger's sidecar beside a pack in a sticky folder is not used") {
  REQUIRE(has_no_cache);
  if (geteuid() != 0) return;  // only root can change the owner of a file
  constexpr uid_t kPacker = 12345;
  constexpr uid_t kStranger = 12346;
  const PlainPack pack;
  const std::string sidecar = pack.folder.write("p.ffr.idx", pack.sidecar());
  REQUIRE(chown(pack.path.c_str(), kPacker, kPacker) == 0);
  const auto is_believed = [&](uid_t owner, mode_t folder_mode) {
    REQUIRE(chown(sidecar.c_str(), owner, owner) == 0);
    REQUIRE(chmod((pack.folder / "").c_str(), folder_mode) == 0);
    const FfrecordShard shard = pack.open();
    CHECK((shard.index() != nullptr) == shard.warning().empty());
    return shard.index() != nullptr;
  };
  CHECK(!is_believed(kStranger, S_ISVTX | 0777));
  CHECK(is_believed(kPacker, S_ISVTX | 0777));
  CHECK(is_believed(geteuid(), S_ISVTX | 0777));
  CHECK(is_believed(kStranger, 0777));  // the stranger could replace the pack as well
}

TEST_CASE("the cache is in XDG_CACHE_HOME or in HOME or (root's) in /var/cache") {
  const PlainPack pack;
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/nowhere", 1);
  CHECK(index_sidecar_paths(pack.path)[1].starts_with("/nowhere/.cache/ffrfs/index/"));
  setenv("XDG_CACHE_HOME", "relative", 1);  // a relative path is not accepted
  CHECK(index_sidecar_paths(pack.path)[1].starts_with("/nowhere/.cache/ffrfs/index/"));
  unsetenv("HOME");
  CHECK(index_sidecar_paths(pack.path).size() == (geteuid() == 0 ? 2 : 1));
  if (geteuid() == 0) CHECK(index_sidecar_paths(pack.path)[1].starts_with("/var/cache/ffrfs/"));
  setenv("HOME", home.c_str(), 1);
  setenv("XDG_CACHE_HOME", "/nonexistent", 1);
}

TEST_CASE("a sidecar that is stale or damaged is ignored") {
  PlainPack pack;
  const Bytes sound = pack.sidecar();
  const auto put_sidecar = [&](const Bytes& bytes) { pack.folder.write("p.ffr.idx", bytes); };

  put_sidecar("");
  pack.check_ignored("it has 0 bytes");
  put_sidecar(pattern(5'000, 1));
  pack.check_ignored("it does not end as an index does");
  put_sidecar(sound.substr(8));
  pack.check_ignored("it says that it has " + std::to_string(sound.size()) + " bytes");
  put_sidecar("12345678" + sound);
  pack.check_ignored("and says " + std::to_string(sound.size()));
  put_sidecar(with_trailer(sound, [](auto& t) { --t.pack_size; }));
  pack.check_ignored("stale index: " + pack.path + " has changed (its size)");
  put_sidecar(with_trailer(sound, [](auto& t) { --t.pack_mtime_ns; }));
  pack.check_ignored("(its time)");
  put_sidecar(with_trailer(sound, [](auto& t) { ++t.pack_header_crc; }));
  pack.check_ignored("(its header)");
  put_sidecar(with_trailer(sound, [](auto& t) { --t.record_count; }));
  pack.check_ignored("it is of 3 records");
  Bytes damaged_block = sound;
  damaged_block[40] ^= 1;
  put_sidecar(damaged_block);
  pack.check_ignored("damaged index (header)");

  put_sidecar(sound);
  CHECK(pack.open().index() != nullptr);
  std::filesystem::last_write_time(pack.path, std::filesystem::file_time_type::clock::now());
  pack.check_ignored("(its time)");
}

TEST_CASE("a sidecar with wrong checksums of the header is not used") {
  const PlainPack pack;
  IndexTrailer trailer{};
  const Bytes sound = pack.sidecar();
  std::memcpy(&trailer, sound.data() + sound.size() - sizeof trailer, sizeof trailer);
  Sections sections = pack.sections;
  section(sections, Section::kHeader) = "0000";
  pack.folder.write("p.ffr.idx", index_bytes(sections, trailer));
  const FfrecordShard shard = pack.open();
  CHECK(shard.index() == nullptr);
  CHECK(shard.warning().find("p.ffr: damaged header (offsets)") != Bytes::npos);
  CHECK(shard.count() == 4);
}
