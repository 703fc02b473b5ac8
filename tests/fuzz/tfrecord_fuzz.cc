// A TFRecord file and the sidecar beside it (native/tfrecord): any bytes give records that
// lie inside the file, or FormatError.
//
// The input is both files: the TFRecord file's size in four bytes, that file, its sidecar. In three
// of four cases the mutator corrects the checksums of the frames' lengths.

#include <algorithm>
#include <filesystem>

#include "fuzz_input.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "tfrecord/framing.h"
#include "tfrecord/tfrecord_shard.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kPrefixSize = 4;

struct Input {
  std::span<const std::byte> file;
  std::span<const std::byte> sidecar;
};

Input parts(std::span<const std::byte> bytes) {
  const auto rest = bytes.subspan(kPrefixSize);
  const size_t size = std::min<size_t>(load_le<uint32_t>(bytes), rest.size());
  return {rest.first(size), rest.subspan(size)};
}

// Both files are in a folder of their own, since a sidecar is found by its name.
class Files {
 public:
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() { std::filesystem::remove_all(folder_); }

  static const Files& get() {
    static const Files files(std::filesystem::temp_directory_path() / "ffrfs-fuzz-XXXXXX");
    return files;
  }

  const std::filesystem::path folder_;
  const fuzz::InputFile file{folder_ / "x.tfrecord"};
  const fuzz::InputFile sidecar{folder_ / "x.tfrecord.idx"};

 private:
  explicit Files(std::string name) : folder_(mkdtemp(name.data())) {}
};

void check_extents(const TfrecordShard& shard, uint64_t file_size) {
  uint64_t end = 0;
  for (uint64_t record = 0; record < shard.count(); ++record) {
    const Extent extent = shard.extent(record);
    require(extent.record_offset() == end, "frames lie one behind the other");
    require(extent.size <= file_size && extent.offset <= file_size - extent.size,
            "a record lies inside the file");
    end = extent.offset + extent.size + extent.trailer_size();
  }
  require(end == file_size, "frames fill the file");
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size < kPrefixSize || seed % 4 == 0) return size;
  const auto rest = std::as_writable_bytes(std::span(data, size)).subspan(kPrefixSize);
  for (size_t at = 0; rest.size() - at >= kFramingSize;) {
    const auto header = rest.subspan(at, kFrameHeaderSize);
    store_le(header, 8, mask_crc32c(crc32c(header.first(8))));
    const auto length = load_le<uint64_t>(header);
    if (length > rest.size() - at - kFramingSize) break;
    at += kFramingSize + length;
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kPrefixSize) return 0;
  const Files& files = Files::get();
  const Input input = parts(std::as_bytes(std::span(data, size)));
  files.file.write(input.file);
  files.sidecar.write(input.sidecar);
  for (const bool use_sidecar : {true, false}) {
    try {
      const TfrecordShard shard(open_local_file(files.file.path()), use_sidecar);
      check_extents(shard, input.file.size());
    } catch (const FormatError& error) {
      require(std::string(error.what()).starts_with(files.file.path()), "an error names the file");
    }
  }
  return 0;
}
