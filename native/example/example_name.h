// How the name of a feature, which may be any text, is written as a path.
//
// '/' makes directories. Characters that no directory can hold are spelt with percent signs, as in
// a URL: a '/' that would leave a part empty, or go deeper than 16 (%2F), NUL (%00), the parts "."
// and ".." (%2E, %2E%2E); the empty name is "%". Parts are cut at 240 bytes, between characters. So
// two features may have the same path: the layout gives them different names (example_layout.h),
// for which the remaining bytes of a name are reserved.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ffrfs {

inline constexpr size_t kFeatureDepthLimit = 16;
inline constexpr size_t kFeaturePartSizeMax = 240;

// Writes one to kFeatureDepthLimit parts with '/' between them, each valid as a name. Replaces
// `path`.
void spell_feature(std::string_view feature, std::string& path);

}  // namespace ffrfs
