#include "example/example_content.h"

#include <algorithm>

namespace ffrfs {
namespace {

// Sorts by name. `named` is in the order of the record's bytes; if a name occurs again, the last
// entry is kept.
template <typename Entries> void sort_once(Entries& named) {
  using Entry = typename Entries::value_type;
  if (std::ranges::adjacent_find(named, std::ranges::greater_equal{}, &Entry::name) ==
      named.end()) {
    return;
  }
  std::ranges::stable_sort(named, {}, &Entry::name);
  // unique() keeps the first of equal elements, which is the last in reverse order.
  const auto kept = std::unique(named.rbegin(), named.rend(),
                                [](const Entry& a, const Entry& b) { return a.name == b.name; });
  named.erase(named.begin(), kept.base());
}

}  // namespace

std::optional<ExampleContent> ExampleContent::read(std::span<const std::byte> record,
                                                   size_t limit) {
  ExampleContent content;
  content.kind = inspect(record).kind;
  if (content.kind == MessageKind::kNone) return std::nullopt;
  size_t count = 0;
  const auto collect = [&](auto& named) {
    return [&](std::string_view name, auto message) {
      if (++count <= limit) named.push_back({name, message});
    };
  };
  // inspect() has found no fault.
  (void)for_each_feature(record, collect(content.features));
  if (content.kind == MessageKind::kSequenceExample) {
    (void)for_each_feature_list(record, collect(content.feature_lists));
  }
  if (count > limit) return std::nullopt;
  sort_once(content.features);
  sort_once(content.feature_lists);
  return content;
}

}  // namespace ffrfs
