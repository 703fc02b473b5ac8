// example.json: all that an Example or SequenceExample says, but for its bytes values,
// of which it tells the size and the SHA-256.
//
//   {
//     "features": {                            (of a sequence: "context")
//       "image/encoded": {"bytes_list": [{"size": 2345, "sha256": "…"}]},
//       "label": {"int64_list": [3]},
//       "mean": {"float_list": [0.5, "NaN"]},
//       "nothing": null                        (no kind is set)
//     },
//     "feature_lists": {                       (of a sequence)
//       "tokens": [{"int64_list": [0, 1]}, …]
//     }
//   }
//
// Floats stand in the shortest form that reads back to the same float; NaN and infinities
// as the texts of protobuf's JSON (https://protobuf.dev/programming-guides/json). More
// than 16 of them stand in columns, so that the size of the file, which every listing
// tells, follows from their number: writing a float takes longer than reading ten.

#pragma once

#include <cstdint>

#include "example/example_content.h"
#include "tree/file_part.h"

namespace ffrfs {

[[nodiscard]] uint64_t example_json_size(const ExampleContent& content);

// Gives `part` its bytes of the text. Returns the size of all of it.
uint64_t write_example_json(const ExampleContent& content, FilePart part);

}  // namespace ffrfs
