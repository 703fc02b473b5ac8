#include "entries/record_costs.h"

#include "record/index_layout.h"

namespace ffrfs {
namespace {

// The cost of an entry, besides its bytes and twice its name: 12 bytes in the header, 32 to 56 in
// the index, and the opcodes of the pickle.
constexpr uint64_t kEntryCost = 80;

uint64_t cost_of_folder(const EntryList& list, uint32_t folder) {
  size_t path_size = 0;
  for (uint32_t above = folder; above != EntryList::kRoot; above = list.folder(above).parent) {
    path_size += list.folder(above).name_size + (path_size > 0 ? 1 : 0);
  }
  return folder_cost(list.folder(folder).detail, path_size);
}

}  // namespace

uint64_t file_cost(uint64_t size, std::string_view name) {
  uint64_t cost = size + kEntryCost + 2 * name.size();
  if (size > kIndexChunkSize) {
    cost += sizeof(ChunkedRecord) + record_chunk_count(size) * sizeof(uint32_t);
  }
  return cost;
}

uint64_t link_cost(size_t name_size, size_t target_size) {
  return kEntryCost + 2 * name_size + target_size;
}

uint64_t folder_cost(size_t depth, size_t path_size) {
  return kEntryCost * (depth + 1) + 2 * path_size;
}

std::vector<uint64_t> record_costs(const EntryList& list, uint32_t first, uint32_t count) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint64_t> costs;
  costs.reserve(count);
  uint32_t above = first > 0 ? list.file(list.file_of(first - 1)).parent : kNone;
  for (uint32_t record = first; record < first + count; ++record) {
    const EntryList::Entry& file = list.file(list.file_of(record));
    costs.push_back(file_cost(file.value, list.name(file)));
    if (file.parent != above) costs.back() += cost_of_folder(list, file.parent);
    above = file.parent;
  }
  const auto of_rest = [&](EntryList::Node node) {
    return list.is_folder(node) ? node : list.entry(node).parent;
  };
  const auto before = list.rest(0, first);
  above = before.empty() ? kNone : of_rest(before.back().node);
  for (const auto& [record, node] : list.rest(first, count)) {
    uint64_t& cost = costs[record - first];
    if (of_rest(node) != above) cost += cost_of_folder(list, above = of_rest(node));
    if (list.is_folder(node)) continue;
    const EntryList::Entry& link = list.entry(node);
    cost += link_cost(link.name_size, list.target(link).size());
  }
  return costs;
}

}  // namespace ffrfs
