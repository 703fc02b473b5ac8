// Pickles for the tests of the index parser: real ones, and the pieces to write wrong
// ones by hand.

#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "golden.h"
#include "pickle/pickle_index.h"
#include "record/ffrecord_shard.h"
#include "scratch.h"
#include "tree/byte_source.h"
#include "tree/pickle_tree.h"

namespace ffrfs::test {

// Gives the bytes in pieces of one size. Each piece is in memory of its own, so that a sanitizer
// finds a reader that still uses an old piece.
class Pieces : public ByteSource {
 public:
  // `bytes` must outlive this.
  Pieces(std::string_view bytes, size_t piece_size) : rest_(bytes), piece_size_(piece_size) {}
  Pieces(Bytes&&, size_t) = delete;

  [[nodiscard]] std::span<const std::byte> next() override {
    piece_ = std::make_unique<std::string>(rest_.substr(0, piece_size_));
    rest_.remove_prefix(piece_->size());
    ended_ = piece_->empty();
    return std::as_bytes(std::span(*piece_));
  }

  [[nodiscard]] bool ended() const { return ended_; }

 private:
  std::string_view rest_;
  const size_t piece_size_;
  std::unique_ptr<std::string> piece_;
  bool ended_ = false;
};

inline std::unique_ptr<PickleTree> read_pickle(std::string_view pickle, uint64_t record_count,
                                               size_t piece_size = 1 << 20) {
  Pieces source(pickle, piece_size);
  return read_pickle_index(source, record_count, "packed.ffr");
}

// Everything in the tree: path → record, or nullopt for a folder. The root is not listed.
using Listing = std::map<std::string, std::optional<uint64_t>>;

inline Listing listing(const Tree& tree) {
  Listing found;
  std::vector<Ino> folders{kRootIno};
  for (size_t i = 0; i < folders.size(); ++i) {
    for (const Dentry& entry : tree.list(folders[i], 0, UINT64_MAX)) {
      const Inode inode = tree.inode(entry.ino).value();
      if (inode.is_directory()) folders.push_back(entry.ino);
      found[tree.path(entry.ino)] =
          inode.is_directory() ? std::nullopt : std::optional(inode.record);
    }
  }
  return found;
}

struct GoldenIndex {
  Bytes pickle;
  uint64_t record_count = 0;
};

inline GoldenIndex golden_index() {
  const FfrecordShard shard(golden_folder() / "packed.ffr");
  const Extent extent = shard.extent(shard.count() - 1);
  Bytes record(extent.size, '\0');
  shard.file().read_fully(extent.offset, std::as_writable_bytes(std::span(record)));
  if (!record.starts_with("piouhjgbr")) throw std::runtime_error("no index in packed.ffr");
  return {record.substr(9), shard.count()};
}

// Pieces of a pickle, to be put together by hand.
inline Bytes folder() { return "ccollections\nOrderedDict\n)R"; }
inline Bytes name(std::string_view text) {
  Bytes bytes = "X";
  append_le(bytes, static_cast<uint32_t>(text.size()));
  return bytes + Bytes(text);
}
inline Bytes number(uint8_t value) { return {'K', static_cast<char>(value)}; }
inline Bytes folder(const Bytes& items) { return folder() + "(" + items + "u"; }
inline Bytes one_file(std::string_view file_name) {
  return folder(name(file_name) + number(0)) + ".";
}

// One tree as CPython 3.11 pickles it: with protocols 0 to 5, then the same again through
// pickletools.optimize(). Both of its picklers, pickle.dumps and pickle._Pickler, with
// or without fix_imports, write exactly these bytes:
//
//   from collections import OrderedDict as Folder
//   tree = Folder([
//       ("a", Folder([("x", 0), ("line\n\\", 255)])),
//       ("b", Folder([("x", 256)])),
//       ("empty", Folder()),
//       ("n\xfc\u540d\U0001f600", 65536),
//       ("\udc80\udcff", 3_000_000_000),
//   ])
//   print(pickle.dumps(tree, protocol).hex())
inline const std::vector<std::string_view> kSampleHex = {
    // protocol 0
    "63636f6c6c656374696f6e730a4f726465726564446963740a70300a28745270310a56610a70320a67300a28745270"
    "330a56780a70340a49300a73566c696e655c75303030615c75303035630a70350a493235350a737356620a70360a67"
    "300a28745270370a67340a493235360a737356656d7074790a70380a67300a28745270390a73566efc5c7535343064"
    "5c5530303031663630300a7031300a4936353533360a73565c75646338305c75646366660a7031310a4c3330303030"
    "30303030304c0a732e",
    // protocol 1
    "63636f6c6c656374696f6e730a4f726465726564446963740a71002952710128580100000061710268002952710328"
    "58010000007871044b0058060000006c696e650a5c71054bff75580100000062710668002952710768044d00017358"
    "05000000656d7074797108680029527109580a0000006ec3bce5908df09f9880710a4a000001005806000000edb280"
    "edb3bf710b4c333030303030303030304c0a752e",
    // protocol 2
    "800263636f6c6c656374696f6e730a4f726465726564446963740a7100295271012858010000006171026800295271"
    "032858010000007871044b0058060000006c696e650a5c71054bff75580100000062710668002952710768044d0001"
    "735805000000656d7074797108680029527109580a0000006ec3bce5908df09f9880710a4a000001005806000000ed"
    "b280edb3bf710b8a05005ed0b200752e",
    // protocol 3
    "800363636f6c6c656374696f6e730a4f726465726564446963740a7100295271012858010000006171026800295271"
    "032858010000007871044b0058060000006c696e650a5c71054bff75580100000062710668002952710768044d0001"
    "735805000000656d7074797108680029527109580a0000006ec3bce5908df09f9880710a4a000001005806000000ed"
    "b280edb3bf710b8a05005ed0b200752e",
    // protocol 4
    "8004957e000000000000008c0b636f6c6c656374696f6e73948c0b4f72646572656444696374949394295294288c01"
    "61946802295294288c0178944b008c066c696e650a5c944bff758c016294680229529468064d0001738c05656d7074"
    "799468022952948c0a6ec3bce5908df09f9880944a000001008c06edb280edb3bf948a05005ed0b200752e",
    // protocol 5
    "8005957e000000000000008c0b636f6c6c656374696f6e73948c0b4f72646572656444696374949394295294288c01"
    "61946802295294288c0178944b008c066c696e650a5c944bff758c016294680229529468064d0001738c05656d7074"
    "799468022952948c0a6ec3bce5908df09f9880944a000001008c06edb280edb3bf948a05005ed0b200752e",
    // protocol 0, optimized
    "63636f6c6c656374696f6e730a4f726465726564446963740a70300a28745256610a67300a28745256780a70310a49"
    "300a73566c696e655c75303030615c75303035630a493235350a737356620a67300a28745267310a493235360a7373"
    "56656d7074790a67300a28745273566efc5c75353430645c5530303031663630300a4936353533360a73565c756463"
    "38305c75646366660a4c333030303030303030304c0a732e",
    // protocol 1, optimized
    "63636f6c6c656374696f6e730a4f726465726564446963740a71002952285801000000616800295228580100000078"
    "71014b0058060000006c696e650a5c4bff755801000000626800295268014d0001735805000000656d707479680029"
    "52580a0000006ec3bce5908df09f98804a000001005806000000edb280edb3bf4c333030303030303030304c0a752"
    "e",
    // protocol 2, optimized
    "800263636f6c6c656374696f6e730a4f726465726564446963740a7100295228580100000061680029522858010000"
    "007871014b0058060000006c696e650a5c4bff755801000000626800295268014d0001735805000000656d70747968"
    "002952580a0000006ec3bce5908df09f98804a000001005806000000edb280edb3bf8a05005ed0b200752e",
    // protocol 3, optimized
    "800363636f6c6c656374696f6e730a4f726465726564446963740a7100295228580100000061680029522858010000"
    "007871014b0058060000006c696e650a5c4bff755801000000626800295268014d0001735805000000656d70747968"
    "002952580a0000006ec3bce5908df09f98804a000001005806000000edb280edb3bf8a05005ed0b200752e",
    // protocol 4, optimized
    "80049572000000000000008c0b636f6c6c656374696f6e738c0b4f7264657265644469637493942952288c01616800"
    "2952288c0178944b008c066c696e650a5c4bff758c01626800295268014d0001738c05656d707479680029528c0a6e"
    "c3bce5908df09f98804a000001008c06edb280edb3bf8a05005ed0b200752e",
    // protocol 5, optimized
    "80059572000000000000008c0b636f6c6c656374696f6e738c0b4f7264657265644469637493942952288c01616800"
    "2952288c0178944b008c066c696e650a5c4bff758c01626800295268014d0001738c05656d707479680029528c0a6e"
    "c3bce5908df09f98804a000001008c06edb280edb3bf8a05005ed0b200752e",
};

inline Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

inline constexpr uint64_t kSampleRecordCount = 3'000'000'002;

inline Listing sample_listing() {
  return {{"a", std::nullopt},
          {"a/x", 0},
          {"a/line\n\\", 255},
          {"b", std::nullopt},
          {"b/x", 256},
          {"empty", std::nullopt},
          {"n\xc3\xbc\xe5\x90\x8d\xf0\x9f\x98\x80", 65536},
          {"\x80\xff", 3'000'000'000}};
}

}  // namespace ffrfs::test
