#include "entries/entry_listing.h"

namespace ffrfs {
namespace {

void add_number(std::string& bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

EntryListing::EntryListing(const EntryList& list, uint32_t first, uint32_t count) {
  for (uint32_t record = first; record < first + count; ++record) {
    const EntryList::Entry& file = list.file(list.file_of(record));
    const uint32_t folder = file.parent;
    if (record == 0 || list.file(list.file_of(record - 1)).parent != folder) {
      const std::string path = folder == EntryList::kRoot ? "" : list.path(list.folder(folder));
      names.append(1, '\0').append(path).append(1, '\0');
    }
    names.append(list.name(file)).append(1, '/');
    add_number(sizes, file.value);
    add_number(times, static_cast<uint64_t>(file.mtime_ns));
  }
}

std::vector<EntryRow> entry_rows(const EntryList& list, uint32_t first, uint32_t count) {
  std::vector<EntryRow> rows;
  const auto add = [&](uint32_t record, EntryList::Node node) {
    if (list.is_folder(node)) {
      rows.push_back({.record = record, .folder = node});
      return;
    }
    const EntryList::Entry& entry = list.entry(node);
    const bool is_file = list.is_file(node);
    rows.push_back({.record = record,
                    .folder = entry.parent,
                    .name = list.name(entry),
                    .size = is_file ? entry.value : 0,
                    .mode = static_cast<uint32_t>(entry.mode),
                    .mtime_ns = entry.mtime_ns,
                    .target = is_file ? std::string_view() : list.target(entry)});
  };
  const auto rest = list.rest(first, list.record_count() == 0 ? 1 : count);
  auto next = rest.begin();
  for (uint32_t record = first; record < first + count; ++record) {
    for (; next != rest.end() && next->record == record; ++next) add(record, next->node);
    add(record, list.folder_count() + list.file_of(record));
    for (const uint32_t file : list.sharing(record)) add(record, list.folder_count() + file);
  }
  for (; next != rest.end(); ++next) add(next->record, next->node);
  return rows;
}

}  // namespace ffrfs
