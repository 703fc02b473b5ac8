// Goes through the entries of one directory of several parts, name by name: their sorted
// lists, merged. For one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tree/tree.h"
#include "union/union_part.h"

namespace ffrfs {

class UnionCursor {
 public:
  // UnionParts::list or UnionParts::subdirectories.
  using Ask = std::vector<Dentry> (UnionParts::*)(Ino, uint64_t, uint64_t) const;

  // Before the first name behind `after` ("": of all). `directories`: the directory in each
  // of its parts; both must outlive this.
  UnionCursor(const UnionParts& parts, std::span<const Ino> directories, Ask ask,
              std::string_view after = {});

  // To the next name; false at the end. Throws FormatError if a part's names are not in
  // order, so that no name ever comes twice, and what the parts throw.
  [[nodiscard]] bool next();

  [[nodiscard]] const std::string& name() const { return name_; }
  // The entries of that name, one of each part that has it, in the order of `directories`.
  [[nodiscard]] std::span<const Ino> inos() const { return inos_; }

  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  // Slices grow: of many parts most may have their names far away.
  static constexpr uint64_t kFirstSlice = 4;

  struct Source {
    Ino directory = 0;
    uint64_t position = 0;              // of what follows the slice
    uint64_t slice_size = kFirstSlice;  // of the next one
    std::vector<Dentry> slice;
    size_t place = 0;                   // in the slice
  };

  [[nodiscard]] const std::string& name_in(uint32_t source) const;
  // Of the first entry behind `name`.
  [[nodiscard]] uint64_t position_after(Ino directory, std::string_view name) const;
  void fill(Source& source);
  void advance();  // the source of the least name, by one
  void sift_down(size_t place);

  const UnionParts& parts_;
  const Ask ask_;
  const uint64_t slice_max_;
  std::vector<Source> sources_;
  std::vector<uint32_t> heap_;  // sources that have more, the one of the least name first
  std::string name_;
  std::vector<Ino> inos_;
};

}  // namespace ffrfs
