#include "example/example_name.h"

namespace ffrfs {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

// Appends the parts of one path. Stops storing a part once it is known to be too long.
class Speller {
 public:
  explicit Speller(std::string& path) : path_(path) { path_.clear(); }

  void add(std::string_view text) {
    if (part_size() <= kFeaturePartSizeMax) path_ += text;
  }

  // Returns false if the part is empty, or if it is the last one that is allowed.
  [[nodiscard]] bool begin_part() {
    if (part_size() == 0 || depth_ == kFeatureDepthLimit) return false;
    finish_part();
    path_ += '/';
    part_ = path_.size();
    ++depth_;
    return true;
  }

  void finish_part() {
    const std::string_view part = std::string_view(path_).substr(part_);
    if (part.empty()) {
      path_ += '%';
    } else if (part == ".") {
      path_.replace(part_, part.size(), "%2E");
    } else if (part == "..") {
      path_.replace(part_, part.size(), "%2E%2E");
    } else if (part.size() > kFeaturePartSizeMax) {
      size_t size = kFeaturePartSizeMax;
      while (size > 0 && continues_character(part[size])) --size;
      path_.resize(part_ + size);
    }
  }

 private:
  [[nodiscard]] size_t part_size() const { return path_.size() - part_; }

  std::string& path_;
  size_t part_ = 0;  // start of the last part
  size_t depth_ = 1;
};

}  // namespace

void spell_feature(std::string_view feature, std::string& path) {
  Speller speller(path);
  for (size_t at = 0; at < feature.size(); ++at) {
    const bool is_last = at + 1 == feature.size();
    if (feature[at] == '\0') {
      speller.add("%00");
    } else if (feature[at] != '/') {
      speller.add(feature.substr(at, 1));
    } else if (is_last || !speller.begin_part()) {
      speller.add("%2F");
    }
  }
  speller.finish_part();
}

}  // namespace ffrfs
