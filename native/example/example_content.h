// The features of one record, each once, in the byte order of their names: the source of the
// record's directory (example_layout.h) and of its example.json (example_json.h). Views of the
// record's bytes.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tfrecord/example.h"

namespace ffrfs {

struct ExampleContent {
  template <typename Message> struct Named {
    std::string_view name;
    Message message;
  };

  MessageKind kind = MessageKind::kNone;
  std::vector<Named<Feature>> features;           // of a SequenceExample: its context
  std::vector<Named<FeatureList>> feature_lists;  // of a SequenceExample

  // Returns nullopt if the record is not an Example (see inspect()), or has more than `limit`
  // features and lists, counting repeated ones. If a name occurs again, the last one counts.
  [[nodiscard]] static std::optional<ExampleContent> read(std::span<const std::byte> record,
                                                          size_t limit);
};

}  // namespace ffrfs
