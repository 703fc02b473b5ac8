#include "fuse/request.h"

#include <algorithm>
#include <cstring>

namespace ffrfs::fuse {
namespace {

template <typename T> std::optional<T> load(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Returns the size of the opcode's fixed part; 0 if it has none, or if none is read here.
size_t argument_size(Opcode opcode) {
  switch (opcode) {
    case Opcode::kOpen:
    case Opcode::kOpendir: return sizeof(OpenIn);
    case Opcode::kRead:
    case Opcode::kReaddir:
    case Opcode::kReaddirplus: return sizeof(ReadIn);
    case Opcode::kGetxattr:
    case Opcode::kListxattr: return sizeof(GetxattrIn);
    default: return 0;
  }
}

// Returns the bytes before the first NUL; nullopt if there is none.
std::optional<std::string_view> parse_name(std::span<const std::byte> bytes) {
  const auto end = std::ranges::find(bytes, std::byte{0});
  if (end == bytes.end()) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()),
                          static_cast<size_t>(end - bytes.begin()));
}

}  // namespace

std::optional<InHeader> parse_header(std::span<const std::byte> message) {
  const auto header = load<InHeader>(message);
  return header && header->len == message.size() ? header : std::nullopt;
}

std::optional<Request> parse_message(const InHeader& header, std::span<const std::byte> message) {
  const auto body = message.subspan(sizeof(InHeader));
  const size_t size = argument_size(static_cast<Opcode>(header.opcode));
  if (body.size() < size) return std::nullopt;
  return parse_request(header, body.first(size), body.subspan(size));
}

std::optional<Request> parse_request(const InHeader& header, std::span<const std::byte> argument,
                                     std::span<const std::byte> rest) {
  Request request{.opcode = static_cast<Opcode>(header.opcode),
                  .unique = header.unique,
                  .ino = header.nodeid,
                  .uid = header.uid};
  switch (request.opcode) {
    case Opcode::kOpen:
    case Opcode::kOpendir: {
      const auto open = load<OpenIn>(argument);
      if (!open) return std::nullopt;
      request.flags = open->flags;
      break;
    }
    case Opcode::kRead:
    case Opcode::kReaddir:
    case Opcode::kReaddirplus: {
      const auto read = load<ReadIn>(argument);
      if (!read) return std::nullopt;
      request.offset = read->offset;
      request.size = read->size;
      break;
    }
    case Opcode::kGetxattr:
    case Opcode::kListxattr: {
      const auto get = load<GetxattrIn>(argument);
      if (!get) return std::nullopt;
      request.size = get->size;
      break;
    }
    default: break;
  }
  if (request.opcode == Opcode::kLookup || request.opcode == Opcode::kGetxattr) {
    const auto name = parse_name(rest);
    if (!name) return std::nullopt;
    request.name = *name;
  }
  return request;
}

}  // namespace ffrfs::fuse
