// Where the files made by the original programs are: in a copy of tests/golden that the build
// unpacks.
#pragma once

#include <filesystem>

namespace ffrfs::test {

inline std::filesystem::path golden_folder() { return FFRFS_GOLDEN; }

}  // namespace ffrfs::test
