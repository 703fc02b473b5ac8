// Iterates over the entries of one directory of several parts, name by name, by merging their
// sorted lists. For one thread.

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

  // Starts before the first name after `after` ("": before all). `directories`: the directory in
  // each of its parts; both must outlive this object.
  UnionCursor(const UnionParts& parts, std::span<const Ino> directories, Ask ask,
              std::string_view after = {});

  // Moves to the next name; returns false at the end. Throws FormatError if a part's names are not
  // in order, so that no name comes twice, and the errors of the parts.
  [[nodiscard]] bool next();

  [[nodiscard]] const std::string& name() const { return name_; }
  // Returns the entries of that name, one of each part that has it, in the order of `directories`.
  [[nodiscard]] std::span<const Ino> inos() const { return inos_; }

 private:
  // Slices grow from this size: with many parts, most need few of their names soon.
  static constexpr uint64_t kFirstSlice = 4;

  struct Source {
    Ino directory = 0;
    uint64_t position = 0;              // of the entry after the slice
    uint64_t slice_size = kFirstSlice;  // of the next slice
    std::vector<Dentry> slice;
    size_t place = 0;                   // in the slice
  };

  [[nodiscard]] const std::string& name_in(uint32_t source) const;
  // Returns the position of the first entry after `name`.
  [[nodiscard]] uint64_t position_after(Ino directory, std::string_view name) const;
  void fill(Source& source);
  void advance();  // moves the source of the least name by one entry
  void sift_down(size_t place);

  const UnionParts& parts_;
  const Ask ask_;
  const uint64_t slice_max_;
  std::vector<Source> sources_;
  std::vector<uint32_t> heap_;  // heap of non-empty sources, least name first
  std::string name_;
  std::vector<Ino> inos_;
};

}  // namespace ffrfs
