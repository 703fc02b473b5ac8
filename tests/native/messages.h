// Messages over a socket, which carry descriptors.

#pragma once

#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "scratch.h"

namespace ffrfs::test {

// Sends one message with copies of these descriptors (at most eight). Return as sendmsg(2) does.
inline ssize_t send_message(int socket, Bytes message, const std::vector<int>& carried = {}) {
  iovec data{message.data(), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!carried.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(carried.size() * sizeof(int));
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(carried.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), carried.data(), carried.size() * sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL);
}

}  // namespace ffrfs::test
