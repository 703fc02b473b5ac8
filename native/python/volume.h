// Volume, its Slice and MadeFile: a mounted tree, for PackedFolder, the commands and the pyfuse3
// engine. Its TreePart is in tree_part.h.
//
// Everything here needs the GIL, and releases it where a volume may wait. Errors of the core are
// passed on.

#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "volume/made_file.h"
#include "volume/volume.h"

namespace ffrfs::python {

namespace py = pybind11;

// Finished calls whose results were not collected yet. Callbacks of the core add them, on any
// polling thread, without the GIL.
class FinishedQueue {
 public:
  struct Finished {
    uint64_t token;
    std::variant<Slice, TreePtr> result;
    std::exception_ptr error;
  };

  void add(Finished finished) {
    const std::lock_guard lock(mutex_);
    finished_.push_back(std::move(finished));
  }

  [[nodiscard]] std::vector<Finished> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(finished_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Finished> finished_;
};

class PyVolume {
 public:
  PyVolume(const std::vector<std::string>& paths, const VolumeOptions& options);
  ~PyVolume() { close(); }
  PyVolume(const PyVolume&) = delete;
  PyVolume& operator=(const PyVolume&) = delete;

  // Raises ValueError once the volume is closed.
  [[nodiscard]] std::shared_ptr<Volume> open() const;
  void close() { end_prefetch(std::exchange(volume_, nullptr)); }

  // Readahead. `self` is this object.

  static void start_prefetch(const py::object& self, py::function push);
  void stop_prefetch() const { end_prefetch(open()); }
  void take_hints(int fd) const;
  void warm(Ino ino) const { open()->warm(ino); }
  void limit_pushed(uint64_t limit_bytes) const { open()->limit_pushed(limit_bytes); }

  // For an engine: these answer at once, or later through poll().

  [[nodiscard]] py::object load_tree(Need need, Ino ino, uint64_t token);
  [[nodiscard]] py::object read(Ino ino, uint64_t offset, size_t size, uint64_t token);
  [[nodiscard]] py::list poll();
  [[nodiscard]] Ino note_failure(Ino ino) const { return open()->note_failure(ino).value_or(0); }

  // For callers that block; volume.cc has more of them.

  [[nodiscard]] py::list read_files(const py::sequence& inos);
  // Returns nullptr if the file is not rendered, but a part of its record.
  [[nodiscard]] std::unique_ptr<const MadeFile> made_file(Ino ino) const;

 private:
  static void end_prefetch(std::shared_ptr<Volume> volume);
  [[nodiscard]] py::list read_parts(Volume& volume, const py::sequence& inos) const;

  const std::string name_;  // of the first pack
  const VolumeOptions options_;
  std::shared_ptr<Volume> volume_;
  std::shared_ptr<FinishedQueue> finished_ = std::make_shared<FinishedQueue>();
};

}  // namespace ffrfs::python
