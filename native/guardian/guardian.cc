// ffrfs-guardian: keeps the descriptors of one mount, and restarts its daemon if the daemon dies.
//
//   ffrfs-guardian SOCKET PIDFD COMMAND [ARGUMENT]...
//
// Started by ffrfs/mount/daemon/keeper.py, never by hand. PIDFD is the daemon's. Over SOCKET
// (SOCK_SEQPACKET) the daemon sends names, separated by colons, and as many descriptors; they
// replace those of the message before. The first is the connection to the kernel. COMMAND gets
// them as a service manager passes descriptors: sd_listen_fds(3); one more, "guardian", is its
// end of the next SOCKET. The guardian ends when the connection ends, or after a message without
// descriptors. It never gives up before that: a machine may be unable to fork for minutes.
//
//   ffrfs-guardian --if-stuck PIDFD COMMAND [ARGUMENT]...
//
// For a daemon that no new daemon can replace: COMMAND runs only if the daemon's main thread has
// died and another thread cannot end. That thread is storing bytes, and waits for a page that is
// locked by a READ that the main thread would have answered. It keeps the connection open, so
// readers would wait for ever.
//
//   ffrfs-guardian --when-left PIPE COMMAND [ARGUMENT]...
//
// For a mount whose descriptors a service manager keeps: COMMAND runs when nobody has the other end
// of the pipe any more. So the manager has dropped them, and there is no daemon that could unmount.
// A daemon that unmounts writes a byte into the pipe: then the guardian only ends.
//
// One thread. After the start it allocates no memory, because it must go on when there is none. For
// the same reason it uses no library but the C library.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>

namespace {

constexpr int kFdsMax = 16;
constexpr size_t kNamesSizeMax = 256;
constexpr int kFirstPassed = 3;  // SD_LISTEN_FDS_START
constexpr int kWrongUsage = 2;
constexpr int kPauseMs = 100;  // doubled for each further start
constexpr int kPauseMsMax = 5000;
constexpr int kDoublingsMax = 10;
constexpr int kEndMs = 1000;  // a process that is killed ends within milliseconds
constexpr int kShortLifeMs = 1000;  // a daemon that lived less is replaced after as long a pause

struct Kept {
  char names[kNamesSizeMax + 1] = "";
  int fds[kFdsMax] = {};
  int count = 0;

  void drop() {
    while (count > 0) close(fds[--count]);
  }
};

// The environment of the command: the guardian's own, and the variables of sd_listen_fds(3).
struct Environment {
  char pid[32] = "";
  char count[32] = "";
  char names[kNamesSizeMax + 32] = "";
  char** all = nullptr;
};

Kept kept;
Environment environment;

// Returns false if there is no memory for the environment.
bool make_environment() {
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  environment.all = static_cast<char**>(std::calloc(count + 4, sizeof(char*)));
  if (environment.all == nullptr) return false;
  count = 0;
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::strncmp(*each, "LISTEN_", 7) != 0) environment.all[count++] = *each;
  }
  for (char* each : {environment.pid, environment.count, environment.names}) {
    environment.all[count++] = each;
  }
  return true;
}

// Takes one message, if there is one; returns false once the daemon has closed the socket.
bool receive(int socket) {
  Kept next;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof next.fds)];
  iovec bytes{next.names, kNamesSizeMax};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    next.count = static_cast<int>((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(next.fds, CMSG_DATA(part), sizeof(int) * static_cast<size_t>(next.count));
  }
  if (size == 0) return false;
  // Too few descriptors were free. The ones kept so far still make a complete mount.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    next.drop();
    return true;
  }
  next.names[size] = '\0';
  kept.drop();
  kept = next;
  return true;
}

// Waits for the end of the connection; returns whether it has ended.
bool has_ended(int timeout_ms) {
  if (kept.count == 0) return true;
  pollfd connection{kept.fds[0], 0, 0};
  return poll(&connection, 1, timeout_ms) > 0;
}

// Runs in the child.
[[noreturn]] void become_daemon(int socket, char** command) {
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
  // Moves the descriptors above the numbers that they will get, but no higher, because the limit
  // of descriptors may be low.
  const int above = kFirstPassed + kept.count + 1;
  int passed[kFdsMax + 1];
  for (int i = 0; i < kept.count; ++i) passed[i] = fcntl(kept.fds[i], F_DUPFD_CLOEXEC, above);
  passed[kept.count] = fcntl(socket, F_DUPFD_CLOEXEC, above);
  for (int i = 0; i <= kept.count; ++i) {
    if (dup2(passed[i], kFirstPassed + i) < 0) _exit(kWrongUsage);
  }
  std::snprintf(environment.pid, sizeof environment.pid, "LISTEN_PID=%d", getpid());
  std::snprintf(environment.count, sizeof environment.count, "LISTEN_FDS=%d", kept.count + 1);
  std::snprintf(environment.names, sizeof environment.names, "LISTEN_FDNAMES=%s:guardian",
                kept.names);
  execve(command[0], command, environment.all);
  _exit(kWrongUsage);
}

struct Daemon {
  int socket = -1;
  int pidfd = -1;  // -1: it has ended

  void start(char** command) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    const pid_t child = fork();
    if (child == 0) become_daemon(ends[1], command);
    close(ends[1]);
    socket = ends[0];
    if (child < 0) return;
    pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    if (pidfd < 0) kill(child, SIGKILL);  // else the next start would run a second daemon
  }

  // Takes the daemon's messages until the daemon ends; returns whether it has sent any.
  bool follow() {
    bool has_sent = false;
    while (pidfd >= 0) {
      pollfd events[] = {{socket, POLLIN, 0}, {pidfd, POLLIN, 0}};
      if (poll(events, 2, -1) < 0) continue;
      if (events[0].revents != 0) {
        const bool goes_on = receive(socket);
        if (goes_on && kept.count == 0) _exit(0);
        has_sent = has_sent || goes_on;
        if (!goes_on) close_socket();
      } else if (events[1].revents != 0) {
        close(pidfd);
        pidfd = -1;
      }
    }
    close_socket();
    return has_sent;
  }

 private:
  void close_socket() {
    if (socket >= 0) close(socket);
    socket = -1;  // poll() ignores it
  }
};

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1'000'000;
}

// Returns how long to wait before the next start: a daemon that always fails at once must not keep
// a processor busy.
int pause_ms(int failures, int64_t life_ms) {
  if (failures == 0) return life_ms < kShortLifeMs ? kShortLifeMs : 0;
  const int pause = kPauseMs << (failures < kDoublingsMax ? failures - 1 : kDoublingsMax);
  return pause < kPauseMsMax ? pause : kPauseMsMax;
}

void guard(Daemon daemon, char** command) {
  int failures = 0;  // starts in a row without a message
  int64_t began_ms = now_ms() - kShortLifeMs;  // the first daemon counts as long-lived
  for (bool has_come_up = daemon.follow(); !has_ended(0); has_come_up = daemon.follow()) {
    failures = has_come_up ? 0 : failures + 1;
    if (has_ended(pause_ms(failures, now_ms() - began_ms))) break;
    began_ms = now_ms();
    daemon.start(command);
  }
}

// Waits for the end of the daemon, and executes the command if a thread of the daemon is stuck.
int watch_for_stuck(int process, char** command) {
  sigset_t death;
  sigemptyset(&death);
  sigaddset(&death, SIGUSR1);
  sigprocmask(SIG_BLOCK, &death, nullptr);
  // The kernel sends SIGUSR1 when the thread that has started this process dies: the daemon's main
  // thread. The pidfd becomes readable only after all threads have ended.
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  pollfd ended{process, POLLIN, 0};
  if (poll(&ended, 1, 0) != 0) return 0;
  while (sigwaitinfo(&death, nullptr) < 0) {
  }
  if (poll(&ended, 1, kEndMs) == 0) execv(command[0], command);
  return 0;
}

// Waits until the other end of the pipe is closed, and executes the command then.
int wait_until_left(int pipe, char** command) {
  char byte;
  ssize_t size;
  do {
    size = read(pipe, &byte, 1);
  } while (size < 0 && errno == EINTR);
  if (size == 0) execv(command[0], command);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return kWrongUsage;
  // Signals from a terminal or a service manager are for the daemon.
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE}) signal(number, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // the kernel reaps the children
  setsid();
  prctl(PR_SET_NAME, "ffrfs-guardian");
  if (std::strcmp(argv[1], "--if-stuck") == 0) {
    return watch_for_stuck(std::atoi(argv[2]), argv + 3);
  }
  if (std::strcmp(argv[1], "--when-left") == 0) {
    return wait_until_left(std::atoi(argv[2]), argv + 3);
  }
  if (!make_environment()) return kWrongUsage;
  Daemon daemon;
  daemon.socket = std::atoi(argv[1]);
  daemon.pidfd = std::atoi(argv[2]);
  for (const int fd : {daemon.socket, daemon.pidfd}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  guard(daemon, argv + 3);
  return 0;
}
