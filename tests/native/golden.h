// Where the files by the original programs are: a copy of tests/golden, unpacked
// by the build.
#pragma once

#include <filesystem>

namespace ffrfs::test {

inline std::filesystem::path golden_folder() { return FFRFS_GOLDEN; }

}  // namespace ffrfs::test
