// A tree that reads a mapped index (record/index_map.h): nothing is parsed, so opening takes no
// time, and no memory of its own, whatever the size. ino = slot + 1.
//
// Nothing in the index is trusted. IndexMap keeps every access inside its section; this class
// checks every relation when it is followed: an entry is in the range of its directory, and names
// it as its parent; a parent comes before its children, so there are no cycles; names can be
// mounted, and are in order wherever several are returned. Each access to a bad entry throws
// FormatError that names the file and the slot; the other entries remain usable. Only a lookup may
// miss an entry whose neighbours are out of order.
//
// record/index_layout.h describes the sections; index_writer.h writes them.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/index_layout.h"
#include "record/index_map.h"
#include "tree/name.h"
#include "tree/tree.h"

namespace ffrfs {

class MappedTree final : public Tree {
 public:
  // `index` must outlive this object. Throws FormatError if there is no root; and as all functions
  // below do.
  explicit MappedTree(const IndexMap& index);

  [[nodiscard]] std::optional<Inode> inode(Ino ino) const override;
  [[nodiscard]] Ino lookup(Ino parent, std::string_view name) const override;
  [[nodiscard]] std::vector<Dentry> list(Ino directory, uint64_t start,
                                         uint64_t limit) const override;
  [[nodiscard]] std::vector<Dentry> subdirectories(Ino directory, uint64_t start,
                                                   uint64_t limit) const override;
  [[nodiscard]] std::string target(Ino ino) const override;
  [[nodiscard]] std::string name(Ino ino) const override;
  // If a record has several names, returns the one with the lowest slot.
  [[nodiscard]] Ino file_of(uint64_t record) const override;
  [[nodiscard]] uint64_t file_count() const override { return file_count_; }
  [[nodiscard]] uint64_t link_count() const override { return index_.link_count(); }
  [[nodiscard]] uint64_t directory_count() const override { return directory_count_; }

 private:
  using Slot = uint32_t;

  // The bytes of a name, or as many of them as show that it is too long.
  class RawName {
   public:
    explicit RawName(size_t size) : size_(std::min(size, bytes_.size())) {}
    [[nodiscard]] std::string_view view() const { return {bytes_.data(), size_}; }
    [[nodiscard]] std::span<char> bytes() { return std::span(bytes_).first(size_); }

   private:
    std::array<char, kNameSizeLimit + 1> bytes_;  // uninitialised
    const size_t size_;
  };

  // All of these throw FormatError that names the slot.
  [[nodiscard]] static Ino ino_of(Slot slot) { return kRootIno + slot; }
  [[nodiscard]] std::optional<Slot> slot_of(Ino ino) const;
  [[nodiscard]] IndexInode entry(Slot slot) const;
  [[nodiscard]] Inode inode_at(Slot slot) const;
  [[nodiscard]] InodeKind kind_of(Slot slot, const IndexInode& inode) const;
  // Returns the entry with that number in the section, unchecked.
  [[nodiscard]] IndexDirectory directory_at(uint64_t number) const;
  // Returns the directory of an inode that is one. Checks that it refers to this slot, and that the
  // ranges of its entries and subdirectories exist and come after it.
  [[nodiscard]] IndexDirectory directory(Slot slot, const IndexInode& inode) const;
  [[nodiscard]] std::optional<IndexDirectory> directory(Ino ino) const;  // nullopt: not a directory
  // Checks that the inode and the directory agree that it is in there.
  void check_inside(Slot slot, const IndexInode& inode, const IndexDirectory& in) const;
  void check_parent(Slot slot, const IndexInode& inode) const;  // not for the root
  [[nodiscard]] RawName raw_name(const IndexInode& inode) const;
  // Returns the name, after checking that it can be mounted.
  [[nodiscard]] std::string checked_name(Slot slot, const IndexInode& inode) const;
  // The same, and checks that the name is after `before` in byte order.
  [[nodiscard]] std::string next_name(Slot slot, const IndexInode& inode,
                                      std::string_view before) const;
  [[nodiscard]] std::string target_of(Slot slot, const IndexInode& inode) const;
  [[noreturn]] void refuse(Slot slot, const std::string& reason) const;

  const IndexMap& index_;
  const uint64_t slot_count_;
  const uint64_t directory_count_;
  const uint64_t file_count_;
};

}  // namespace ffrfs
