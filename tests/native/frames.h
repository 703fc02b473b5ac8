// TFRecord images made by hand, so that they can be made wrong.

#pragma once

#include <vector>

#include "scratch.h"

namespace ffrfs::test {

// Return a record as it is stored in the file.
inline Bytes frame(const Bytes& record) {
  Bytes bytes;
  append_le(bytes, uint64_t{record.size()});
  append_le(bytes, mask_crc32c(crc32c(view(bytes))));
  bytes += record;
  append_le(bytes, mask_crc32c(crc32c(view(record))));
  return bytes;
}

// Return a length with its checksum, without a record behind it.
inline Bytes frame_header(uint64_t length) {
  Bytes bytes;
  append_le(bytes, length);
  append_le(bytes, mask_crc32c(crc32c(view(bytes))));
  return bytes;
}

inline Bytes framed(const std::vector<Bytes>& records) {
  Bytes file;
  for (const Bytes& record : records) file += frame(record);
  return file;
}

}  // namespace ffrfs::test
