// native/worker: messages of the daemon that carry a descriptor when the worker can get none.

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "io/error.h"
#include "messages.h"
#include "no_descriptors.h"
#include "worker/daemon_link.h"

using namespace ffrfs;
using namespace ffrfs::test;

namespace {

void send_descriptor(int socket, char kind) {
  REQUIRE(send_message(socket, Bytes(1, kind), {socket}) == 1);
}

}  // namespace

TEST_CASE("without free descriptors a connection is an error, and a client is left out") {
  int ends[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  FileDescriptor daemon(ends[0]);
  DaemonLink link(ends[1]);
  {
    const NoDescriptors none;
    send_descriptor(daemon.get(), 'c');
    CHECK_THROWS_AS((void)link.receive_connection(), StorageError);
  }
  send_descriptor(daemon.get(), 'c');
  CHECK(link.receive_connection().valid());
  int heard = 0;
  const DaemonLink::Heard count{.take_hints = [&](FileDescriptor) {
    ++heard;
  }, .limit_cache = nullptr, .limit_pushed = nullptr, .warm = nullptr};
  send_descriptor(daemon.get(), 'h');
  daemon.reset();
  {
    const NoDescriptors none;
    link.wait_for_end(count);
  }
  CHECK(heard == 0);
}
