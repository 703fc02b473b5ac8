// example.json: the content of an Example or SequenceExample, except for its bytes values, which
// are represented by their size and SHA-256.
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
// Floats have the shortest text that reads back to the same float; NaN and infinities are the texts
// of protobuf's JSON (https://protobuf.dev/programming-guides/json). More than 16 floats have a
// fixed width, so that the size of the file, which every listing needs, follows from their number:
// writing a float takes longer than reading ten.

#pragma once

#include <cstdint>

#include "example/example_content.h"
#include "tree/file_part.h"

namespace ffrfs {

[[nodiscard]] uint64_t example_json_size(const ExampleContent& content);

// Writes the bytes of `part` of the text. Returns the size of the whole text.
uint64_t write_example_json(const ExampleContent& content, FilePart part);

}  // namespace ffrfs
