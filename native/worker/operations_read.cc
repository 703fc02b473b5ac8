// READ, and the errors and log lines for bytes that cannot be read.

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "fuse/log.h"
#include "io/error.h"
#include "worker/answer.h"
#include "worker/operations.h"

namespace ffrfs {
namespace {

void reply_slice(const fuse::Reply& reply, const Slice& slice) {
  // Cannot happen: a READ is at most a megabyte, and so is a part.
  if (slice.rest.size() >= fuse::Reply::kPartCountMax) return reply.error(EIO);
  std::array<fuse::Part, fuse::Reply::kPartCountMax> parts{slice.bytes};
  size_t count = 1;
  for (const Slice& next : slice.rest) parts[count++] = next.bytes;
  reply.parts(std::span(parts).first(count));
}

}  // namespace

void Operations::read(const Request& request, const Reply& reply) {
  const RequestTimer timer(log_, RequestKind::kRead, request.ino);
  std::optional<Extent> missing;
  try {
    const NearOnly here;
    const auto room = reply.room().first(std::min<size_t>(request.size, reply.room().size()));
    const auto found = volume_.read_now(request.ino, request.offset, request.size, room);
    if (found.size) {
      reply.bytes(room.first(*found.size));
      return timer.stop();
    }
    missing = found.missing;
  } catch (const FarAway&) {  // as if the bytes were not at hand
  } catch (...) {
    return fail(reply, request.ino, timer, std::current_exception());
  }
  read_later(request, missing, reply, timer);
}

void Operations::read_later(const Request& request, const std::optional<Extent>& missing,
                            const Reply& reply, const RequestTimer& timer) noexcept {
  const auto failed = [this, timer, ino = request.ino](const Reply& to,
                                                       const std::exception_ptr& error) {
    fail(to, ino, timer, error);
  };
  const auto finish = [timer, failed](const Reply& to, const Slice& slice,
                                      const std::exception_ptr& error) {
    if (error) return failed(to, error);
    reply_slice(to, slice);
    timer.stop();
  };
  Reply watched = reply;
  try {
    watched = interrupts_.watch(reply);
  } catch (...) {
    return failed(reply, std::current_exception());
  }
  far_.run(watched, [this, finish, missing, ino = request.ino, offset = request.offset,
                     size = request.size](const Reply& to) {
    const auto done = [finish, to](const Slice& slice, const std::exception_ptr& error) {
      finish(to, slice, error);
    };
    if (missing) return volume_.read_missing(*missing, done);
    const auto slice = volume_.read(ino, offset, size, done, FileReads::Shape::kParts);
    if (slice) done(*slice, nullptr);
  }, failed);
}

void Operations::fail(const Reply& reply, Ino ino, const RequestTimer& timer,
                      const std::exception_ptr& error) noexcept {
  answer(timer, reply, [&] { reply.error(read_failed(ino, error)); });
}

int Operations::read_failed(Ino ino, const std::exception_ptr& error) {
  int number = EIO;
  std::string reason;
  try {
    std::rethrow_exception(error);
  } catch (const StorageError& refused) {
    number = refused.code();
    reason = refused.what();
  } catch (const TooLargeError& refused) {
    number = EFBIG;
    reason = refused.what();
  } catch (const std::bad_alloc&) {
    number = ENOMEM;
    reason = "out of memory";
  } catch (const std::exception& bad) {
    reason = bad.what();
  }
  const NearOnly here;  // does not wait for a name that is far
  if (const auto counted = volume_.note_failure(ino)) {
    const std::string path = volume_.path(ino);
    log_failure(*counted, path.empty() ? "/" : path, reason);
  }
  return number;
}

}  // namespace ffrfs
