// Reads a region of the packs and pushes its files into the kernel's page cache.
//
//   records of the region, less those that were read or pushed
//     │ pieces: side by side in one file, at most 128 KiB, or one larger record
//     ├─ the kernel knows some of them: the piece is read, and each of these verified and pushed
//     └─ it knows none, and they are not cached: the piece is read into the page cache
//
// Pieces are read through the page cache of the pack, because it can keep the files whose names the
// kernel does not know yet; the budget has room for few of them. The pages of a piece that was
// pushed as a whole are dropped again. A pass holds no memory but the present piece. If there is no
// room for a piece, it is left out; but warm() then reads one piece after the other.
//
// Thread-safe if each thread has its own pass. A pass waits for disks, and leaves out remote bytes.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fetch/demand_reader.h"
#include "fetch/fetcher.h"
#include "fetch/unit_table.h"
#include "prefetch/hint.h"
#include "prefetch/read_around.h"
#include "prefetch/warming.h"
#include "shard/extent.h"
#include "tree/tree.h"

namespace ffrfs {

class RegionPass {
 public:
  RegionPass(const Tree& tree, bool has_files, DemandReader& reader, bool check_data,
             ReadAround& around, const PushRecord& push)
      : tree_(tree),
        has_files_(has_files),
        table_(reader.table()),
        fetcher_(reader.fetcher()),
        check_data_(check_data),
        around_(around),
        push_(push) {}

  // Leaves out damaged and unreadable records: their readers get the errors.
  [[nodiscard]] ReadAround::Outcome run(const Region& region);

 private:
  struct Neighbour {
    Hint hint;
    Extent extent;
    bool is_to_push = false;
    bool is_first = true;  // the file of `hint` is wanted
    std::span<const WarmedPart::Copy> copies;  // other files of the record that are wanted
  };

  struct Piece {
    std::span<const Neighbour> neighbours;
    const Source* file = nullptr;
    uint64_t begin = 0;
    size_t size = 0;
    size_t to_push = 0;
    bool is_cached = false;
  };

  [[nodiscard]] std::vector<Neighbour> neighbours_of(const Region& region) const;
  [[nodiscard]] std::vector<Piece> cut(std::span<const Neighbour> neighbours);
  [[nodiscard]] Piece first_piece(std::span<const Neighbour> neighbours) const;
  void read_piece(const Piece& piece);
  [[nodiscard]] bool is_to_push(uint64_t record) const {
    return is_warming_ ? around_.is_to_warm(record) : around_.is_to_push(record);
  }
  [[nodiscard]] size_t push_one(const Neighbour& neighbour, std::span<const std::byte> bytes);

  const Tree& tree_;
  const bool has_files_;
  const UnitTable& table_;
  Fetcher& fetcher_;
  const bool check_data_;
  ReadAround& around_;
  bool is_warming_ = false;
  const PushRecord& push_;
  ReadAround::Outcome outcome_;
};

}  // namespace ffrfs
