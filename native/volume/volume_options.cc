#include "volume/volume_options.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ffrfs {
namespace {

template <std::integral Number> bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse(std::string_view text, bool& value) {
  value = text == "1";
  return value || text == "0";
}

bool parse(std::string_view text, std::chrono::milliseconds& value) {
  std::chrono::milliseconds::rep count = 0;
  if (!parse(text, count)) return false;
  value = std::chrono::milliseconds(count);
  return true;
}

template <typename Value>
bool parse_one_of(std::string_view text, Value& value,
                  std::initializer_list<std::pair<std::string_view, Value>> known) {
  const auto* const found =
      std::ranges::find(known, text, &std::pair<std::string_view, Value>::first);
  if (found == known.end()) return false;
  value = found->second;
  return true;
}

bool parse(std::string_view text, OnConflict& value) {
  return parse_one_of(
      text, value,
      {{"error", OnConflict::kError}, {"first", OnConflict::kFirst}, {"last", OnConflict::kLast}});
}

bool parse(std::string_view text, ReadAroundMode& value) {
  return parse_one_of(text, value,
                      {{"auto", ReadAroundMode::kAuto},
                       {"on", ReadAroundMode::kOn},
                       {"off", ReadAroundMode::kOff}});
}

// NAME/COUNT/NAME/COUNT…: no name has a '/'.
bool parse(std::string_view text, std::vector<RecordSplit>& value) {
  value.clear();
  while (!text.empty()) {
    const size_t end = text.find('/');
    if (end == text.npos) return false;
    RecordSplit& split = value.emplace_back(RecordSplit{.name = std::string(text.substr(0, end))});
    text.remove_prefix(end + 1);
    const std::string_view count = text.substr(0, text.find('/'));
    if (!parse(count, split.file_count)) return false;
    text.remove_prefix(std::min(count.size() + 1, text.size()));
  }
  return true;
}

using Setter = bool (*)(VolumeOptions& options, std::string_view text);

struct Row {
  std::string_view name;
  Setter set;
};

constexpr Row kRows[] = {
    {"uid", [](VolumeOptions& o, std::string_view t) { return parse(t, o.uid); }},
    {"gid", [](VolumeOptions& o, std::string_view t) { return parse(t, o.gid); }},
    {"umask", [](VolumeOptions& o, std::string_view t) { return parse(t, o.umask); }},
    {"cache_bytes", [](VolumeOptions& o, std::string_view t) { return parse(t, o.cache_bytes); }},
    {"check_data", [](VolumeOptions& o, std::string_view t) { return parse(t, o.check_data); }},
    {"extensions",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.packs.examples.extensions); }},
    {"splits", [](VolumeOptions& o, std::string_view t) { return parse(t, o.packs.splits); }},
    {"on_conflict",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.packs.on_conflict); }},
    {"allow_missing",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.packs.allow_missing); }},
    {"read_around",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.prefetch.around); }},
    {"prefetch_records",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.prefetch.window_records); }},
    {"prefetch_bytes",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.prefetch.window_bytes); }},
    {"far_records",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.prefetch.far_records); }},
    {"prefetch_ttl_ms",
     [](VolumeOptions& o, std::string_view t) { return parse(t, o.prefetch.ttl); }},
};

}  // namespace

void VolumeOptions::set(std::string_view name, std::string_view value) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) throw std::invalid_argument("no option " + std::string(name));
  if (!row->set(*this, value)) {
    throw std::invalid_argument(std::string(name) + " cannot be '" + std::string(value) + "'");
  }
}

}  // namespace ffrfs
