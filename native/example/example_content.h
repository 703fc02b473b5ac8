// The features of one record, each once, in the byte order of their names: what its
// folder (example_layout.h) and its example.json (example_json.h) both are made of.
// Views of the record's bytes.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tfrecord/example.h"

namespace ffrfs {

struct ExampleContent {
  template <typename Message>
  struct Named {
    std::string_view name;
    Message message;
  };

  MessageKind kind = MessageKind::kNone;
  std::vector<Named<Feature>> features;           // of a SequenceExample: its context
  std::vector<Named<FeatureList>> feature_lists;  // of a SequenceExample

  // nullopt: no Example (see inspect()), or more than `limit` features and lists, those
  // that come again counted too. Of several by one name, the last counts.
  [[nodiscard]] static std::optional<ExampleContent> read(std::span<const std::byte> record,
                                                          size_t limit);
};

}  // namespace ffrfs
