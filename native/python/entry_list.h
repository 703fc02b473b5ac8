// An EntryList for Python: a thread that changes it must be its only user.

#pragma once

#include <pybind11/pybind11.h>

#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "entries/entry_list.h"

namespace ffrfs::python {

class SharedFolderList {
 public:
  // Both call `work` with the list, and throw std::invalid_argument if another thread uses it.
  template <typename Work> auto change(const Work& work) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) throw in_use();
    return work(list_);
  }
  template <typename Work> auto read(const Work& work) const {
    const std::shared_lock lock(mutex_, std::try_to_lock);
    if (!lock) throw in_use();
    return work(std::as_const(list_));
  }
  // The same for a list whose files have records; otherwise throws std::invalid_argument.
  template <typename Work> auto read_numbered(const Work& work) const {
    return read([&work](const EntryList& list) {
      if (!list.is_numbered()) throw std::invalid_argument("the files have no records: number()");
      return work(list);
    });
  }

 private:
  [[nodiscard]] static std::invalid_argument in_use() {
    return std::invalid_argument("another thread changes the list, or uses it meanwhile");
  }

  mutable std::shared_mutex mutex_;
  EntryList list_;
};

// Throws std::invalid_argument for records that the list does not have.
inline void check_run(const EntryList& list, uint32_t first, uint32_t count) {
  if (first > list.record_count() || count > list.record_count() - first) {
    throw std::invalid_argument("the list has " + std::to_string(list.record_count()) + " records");
  }
}

}  // namespace ffrfs::python
