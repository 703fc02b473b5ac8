// tf.train.Example and SequenceExample as folders (native/example/example_folder, and the walk of
// the messages below it): any bytes give a folder, and each of its files can be made.

#include <string>
#include <vector>

#include "example/example_folder.h"
#include "fuzz_input.h"
#include "io/error.h"
#include "tfrecord/batch_parser.h"

using namespace ffrfs;
using ffrfs::fuzz::require;

namespace {

void read_files(const ExampleFolder& folder, std::span<const std::byte> record, Ino top) {
  std::vector<Ino> folders{top};
  for (size_t i = 0; i < folders.size(); ++i) {
    for (const Dentry& entry : folder.list(folders[i], 0, UINT64_MAX)) {
      require(folder.lookup(folders[i], entry.name) == entry.ino, "a lookup finds the entry");
      if (folder.inode(entry.ino)->is_directory()) {
        folders.push_back(entry.ino);
        continue;
      }
      const Contents contents = folder.contents(entry.ino).value();
      require(contents.begin <= record.size() && *contents.size <= record.size() - contents.begin,
              "a file is a part of its record");
      if (!contents.rendered_size) continue;
      std::vector<std::byte> file(*contents.rendered_size);
      // Throws unless the file has that size.
      folder.render(entry.ino, record.subspan(contents.begin, *contents.size), 0, file);
    }
  }
}

void parse(std::span<const std::byte> record) {
  static const BatchParser parser({
      {.name = "image/height", .kind = FeatureKind::kInt64},
      {.name = "embedding", .kind = FeatureKind::kFloat},
      {.name = "image/format", .kind = FeatureKind::kBytes},
  });
  std::vector<Column> columns(parser.specs().size());
  try {
    parser.parse_one(record, "", columns);
  } catch (const FormatError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // In memory of its own, so that a sanitizer sees a read beyond its end.
  const std::vector<uint8_t> copy(data, data + size);
  const auto record = std::as_bytes(std::span(copy));
  const auto folder = ExampleFolder::make(record, {0, "000000000"}, {});
  read_files(*folder, record, folder->file_of(0));
  parse(record);
  return 0;
}
