// The header of an FFRecord file (native/record/ffrecord_shard): any bytes in a file of any
// size give extents that lie inside the file, in order, or FormatError.
//
// The input: the file's size in eight bytes, then its first bytes; the rest of it is a hole. In
// three of four cases the mutator corrects the header's checksum.

#include <algorithm>
#include <string>

#include "fuzz_input.h"
#include "io/crc.h"
#include "io/error.h"
#include "io/little_endian.h"
#include "record/ffrecord_shard.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kPrefixSize = 8;
constexpr size_t kFixedSize = 12;
constexpr size_t kPerRecordSize = 12;
constexpr uint64_t kFileSizeMax = uint64_t{8} << 20;

// The file's real checksum also covers zeros in the hole, but this one ends with the input.
void mend_checksum(std::span<std::byte> header) {
  if (header.size() < kFixedSize) return;
  const auto count = load_le<uint64_t>(header, 4);
  const uint64_t limit = header.size() - kFixedSize;
  const uint64_t size = kFixedSize + std::min(count, limit / kPerRecordSize) * kPerRecordSize;
  store_le(header, 0, crc32(header.subspan(4, static_cast<size_t>(size) - 4)));
}

void check_extents(const FfrecordShard& shard, uint64_t file_size) {
  const uint64_t header_size = kFixedSize + shard.count() * kPerRecordSize;
  uint64_t end = header_size;
  uint64_t byte_count = 0;
  for (uint64_t record = 0; record < shard.count(); ++record) {
    const Extent extent = shard.extent(record);
    require(extent.offset >= end, "a record begins behind the header, and where the last ended");
    require(extent.size <= file_size && extent.offset <= file_size - extent.size,
            "a record lies inside the file");
    require(record == 0 || extent.offset == end, "records lie side by side");
    end = extent.offset + extent.size;
    byte_count += extent.size;
  }
  require(end == file_size, "the last record ends with the file");
  require(byte_count == shard.byte_count(), "the records are all that is counted");
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size > kPrefixSize && seed % 4 != 0) {
    mend_checksum(std::as_writable_bytes(std::span(data, size)).subspan(kPrefixSize));
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kPrefixSize) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = bytes.subspan(kPrefixSize);
  static const fuzz::InputFile file;
  const uint64_t file_size =
      std::max<uint64_t>(header.size(), load_le<uint64_t>(bytes) % kFileSizeMax);
  file.write(header, file_size);
  try {
    const FfrecordShard shard(file.path(), IndexUse::kNone);
    check_extents(shard, file_size);
  } catch (const FormatError& error) {
    require(std::string(error.what()).starts_with(file.path()), "an error names the file");
  }
  return 0;
}
