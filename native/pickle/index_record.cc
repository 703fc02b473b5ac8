#include "pickle/index_record.h"

#include <array>
#include <cstddef>
#include <span>

#include "entries/index_writer.h"
#include "pickle/pickle_writer.h"

namespace ffrfs {

void append_index_record(Writer& writer, const IndexEntries& source,
                         const std::optional<IndexSet>& set) {
  writer.append_last([&](const Writer::Sink& sink, const Writer::Before& before) {
    uint64_t end = before.end;
    const ByteSink counted = [&](std::span<const std::byte> bytes) {
      sink(bytes);
      end += bytes.size();
    };
    counted(std::as_bytes(std::span(kFolderMagic)));
    write_pickle(source, counted);
    constexpr std::array<std::byte, kIndexAlignment> kZeros{};
    counted(std::span(kZeros).first((kIndexAlignment - end % kIndexAlignment) % kIndexAlignment));
    const uint64_t begin = end;
    write_index(source,
                {.record_count = writer.count(),
                 .header_checksums = before.header_checksums,
                 .chunks = before.chunks,
                 .set = set,
                 .size = [begin](uint64_t index_size) { return begin + index_size; }},
                counted);
  });
}

}  // namespace ffrfs
