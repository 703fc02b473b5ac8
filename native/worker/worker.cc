// ffrfs-worker: the process that serves one native mount, a child of its daemon.
//
// Started by ffrfs/mount/engines/worker.py, never by hand. It opens the packs, says so, takes the
// connection, and serves it to its end. The daemon owns everything else: the mount,
// signals, the control socket, the log. Exit status: 0 the connection has ended, or the
// daemon has gone; 1 they cannot be served (and the daemon was told why).
//
// With --unindexed=N it only says which of the packs have more than N records and no sound
// mapped index, a zero byte behind each, and ends with 0.

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "worker/daemon_link.h"
#include "worker/lockdown.h"
#include "fuse/log.h"
#include "fuse/ring_plan.h"
#include "fuse/uring_transport.h"
#include "worker/session.h"
#include "io/error.h"
#include "open/open_shards.h"
#include "record/ffrecord_shard.h"
#include "remote/remote_opener.h"
#include "volume/volume.h"

namespace ffrfs {
namespace {

constexpr int kFailed = 1;
constexpr auto kStopLimit = std::chrono::seconds(5);
constexpr int kWrongUsage = 2;

// How requests come from the kernel: by read(2) on the connection, over rings of io_uring, or
// over those if there are any.
enum class Transport { kAuto, kDev, kUring };
constexpr size_t kRingShare = 8;  // rings hold at most one such part of what the cache may

struct WorkerOptions {
  Transport transport = Transport::kAuto;
  std::vector<std::string> packs;
  std::optional<uint64_t> unindexed;
  int daemon_socket = -1;
  int fetcher_socket = -1;  // of what is read by URLs
  unsigned remote_timeout_s = 60;
  VolumeOptions volume;
  SessionOptions session;
};

[[noreturn]] void reject_usage(std::string_view what) {
  log_line(Priority::kError, "ffrfs-worker: wrong usage: " + std::string(what));
  std::exit(kWrongUsage);
}

template <typename Number>
void parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) reject_usage(text);
}

Transport parse_transport(std::string_view text) {
  if (text == "auto") return Transport::kAuto;
  if (text == "dev") return Transport::kDev;
  if (text == "uring") return Transport::kUring;
  reject_usage(text);
}

void set_option(VolumeOptions& options, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) reject_usage(text);
  try {
    options.set(text.substr(0, equals), text.substr(equals + 1));
  } catch (const std::invalid_argument& error) {
    reject_usage(error.what());
  }
}

WorkerOptions parse_arguments(int argc, char** argv) {
  enum { kPack = 1, kSocket, kCounters, kThreads, kXattr, kAllowRoot, kSendOpens, kOption,
         kUnindexed, kTransport, kFetcher, kRemoteTimeout };
  const option known[] = {
      {"pack", required_argument, nullptr, kPack},  // any number, at least one
      {"daemon-socket", required_argument, nullptr, kSocket},
      {"fetcher-socket", required_argument, nullptr, kFetcher},
      {"remote-timeout", required_argument, nullptr, kRemoteTimeout},  // seconds
      {"counters", required_argument, nullptr, kCounters},
      {"threads", required_argument, nullptr, kThreads},
      {"transport", required_argument, nullptr, kTransport},  // auto, dev or uring
      {"xattr", no_argument, nullptr, kXattr},
      {"allow-root", no_argument, nullptr, kAllowRoot},
      {"send-opens", no_argument, nullptr, kSendOpens},
      {"option", required_argument, nullptr, kOption},  // NAME=VALUE, of VolumeOptions
      {"unindexed", required_argument, nullptr, kUnindexed},
      {nullptr, 0, nullptr, 0},
  };
  WorkerOptions options;
  opterr = 0;
  for (int which = 0; (which = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    switch (which) {
      case kPack: options.packs.emplace_back(optarg); break;
      case kSocket: parse(optarg, options.daemon_socket); break;
      case kFetcher: parse(optarg, options.fetcher_socket); break;
      case kRemoteTimeout: parse(optarg, options.remote_timeout_s); break;
      case kCounters: parse(optarg, options.volume.counters_fd); break;
      case kThreads: parse(optarg, options.session.thread_count); break;
      case kTransport: options.transport = parse_transport(optarg); break;
      case kXattr: options.session.operations.xattr = true; break;
      case kAllowRoot: options.session.operations.allow_root = true; break;
      case kSendOpens: options.session.operations.send_opens = true; break;
      case kOption: set_option(options.volume, optarg); break;
      case kUnindexed: parse(optarg, options.unindexed.emplace()); break;
      default: reject_usage(argv[optind - 1]);
    }
  }
  if (optind != argc) reject_usage(argv[optind]);
  if (options.packs.empty() || (options.daemon_socket < 0 && !options.unindexed)) {
    reject_usage("no pack, or no daemon");
  }
  return options;
}

// Signals that a terminal or a service manager sends to everybody are the daemon's to
// obey: the worker goes by its word only.
void leave_signals_to_daemon() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
}

// Each pack takes two descriptors, and the usual limit is for programs that select(2).
void allow_many_packs() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void limit_cache(Volume& volume, uint64_t limit_bytes) {
  try {
    volume.limit_cache(static_cast<size_t>(limit_bytes));
  } catch (const std::bad_alloc&) {  // the daemon tells another limit when it is still short
  }
}

// Takes the clients that hint, and what the cache may hold, until the daemon lets go of its
// end of the socket, as it does when it is killed. Then ends the session, in good order,
// since a killed process keeps its connection for as long as one of its threads waits for a
// disk, and readers would hang.
void watch_daemon(DaemonLink& daemon, Volume& volume, Session& session) {
  daemon.wait_for_end({
      .take_hints = [&volume](FileDescriptor client) { volume.take_hints(std::move(client)); },
      .limit_cache = [&volume](uint64_t limit_bytes) { limit_cache(volume, limit_bytes); },
      .limit_pushed = [&volume](uint64_t limit_bytes) { volume.limit_pushed(limit_bytes); },
      .warm = [&volume](uint64_t ino) { volume.warm(ino); },
  });
  std::thread(&Session::stop, &session).detach();
  std::this_thread::sleep_for(kStopLimit);
  std::_Exit(0);
}

// Before the lockdown, after which none can be made. nullptr: there are none.
std::unique_ptr<fuse::UringTransport> make_rings(const WorkerOptions& options) {
  if (options.transport == Transport::kDev) return nullptr;
  try {
    const auto plan = fuse::plan_rings(fuse::possible_cpu_count(), fuse::own_cpus(),
                                       options.volume.cache_bytes / kRingShare);
    return std::make_unique<fuse::UringTransport>(plan, give_up_capabilities);
  } catch (const StorageError& error) {
    if (options.transport == Transport::kUring) throw;
    log_line(Priority::kInfo, std::string(error.what()) + ": requests come over /dev/fuse");
    return nullptr;
  }
}

bool is_unindexed(const std::string& pack, uint64_t indexed_count) {
  try {
    return claimed_record_count(*remote::open_source(pack)).value_or(0) > indexed_count &&
           FfrecordShard(pack, IndexUse::kIfSound).index() == nullptr;
  } catch (const std::exception&) {
    return false;  // opening it says what is wrong
  }
}

int tell_unindexed(const std::vector<std::string>& packs, uint64_t indexed_count) {
  const Lockdown lockdown;
  try {
    const RecordFiles files = find_record_files(packs);
    for (const std::string& pack : files.paths) {
      if (files.is_tfrecord || !is_unindexed(pack, indexed_count)) continue;
      std::fwrite(pack.c_str(), 1, pack.size() + 1, stdout);
    }
  } catch (const std::exception&) {  // the same
  }
  return std::fflush(stdout) == 0 ? 0 : kFailed;
}

// After each end of a fetcher the daemon brings another link.
void open_urls_by(const WorkerOptions& options) {
  if (options.fetcher_socket < 0) return;
  remote::set_opener(std::make_shared<remote::RemoteOpener>(
      FileDescriptor(options.fetcher_socket), std::chrono::seconds(options.remote_timeout_s)));
}

void replace_link(FileDescriptor link) {
  if (const auto opener = remote::opener()) opener->replace(std::move(link));
}

// Gets the connection, once the daemon has mounted. It listens while the packs are opened, too: a
// fetcher may end just then, and they wait for what the next one brings.
std::future<FileDescriptor> listen_to(DaemonLink& daemon) {
  std::promise<FileDescriptor> promise;
  auto coming = promise.get_future();
  std::thread([&daemon, promise = std::move(promise)]() mutable {
    FileDescriptor connection = daemon.receive_connection();
    if (!connection.valid()) std::_Exit(0);  // nobody waits for the packs any more
    promise.set_value(std::move(connection));
  }).detach();
  return coming;
}

struct Opened {
  std::unique_ptr<fuse::UringTransport> rings;
  std::future<FileDescriptor> connection;
  std::unique_ptr<Volume> volume;
};

// nullopt: the daemon was told why not.
std::optional<Opened> open_all(const WorkerOptions& options, DaemonLink& daemon) {
  try {
    Opened opened;
    opened.rings = make_rings(options);
    Lockdown lockdown;
    // The threads that these two start have the capabilities of the one that does, and need none.
    opened.connection = std::async(std::launch::async, [&options, &daemon] {
      give_up_capabilities();
      open_urls_by(options);
      return listen_to(daemon);
    }).get();
    opened.volume = std::make_unique<Volume>(options.packs, options.volume);
    for (const std::string& path : opened.volume->unverified_paths()) daemon.send_unverified(path);
    for (const std::string& warning : opened.volume->warnings()) daemon.send_notice(warning);
    daemon.send_opened();
    lockdown.tighten();
    return opened;
  } catch (...) {
    daemon.send_failed(std::current_exception());
    return std::nullopt;
  }
}

int run(const WorkerOptions& options) {
  if (options.unindexed) return tell_unindexed(options.packs, *options.unindexed);
  // None of the three is destroyed: the thread that watches knows them until the process
  // ends; of the volume see main().
  auto* const daemon = new DaemonLink(options.daemon_socket, replace_link);
  std::optional<Opened> opened = open_all(options, *daemon);
  if (!opened) return kFailed;
  Volume* const volume = opened->volume.release();
  try {
    auto* const session = new Session(*volume, opened->connection.get(), options.session,
                                      std::move(opened->rings));
    std::thread(watch_daemon, std::ref(*daemon), std::ref(*volume), std::ref(*session)).detach();
    session->serve();
  } catch (const std::exception& error) {
    log_line(Priority::kError, error.what());
    return kFailed;
  }
  return 0;
}

}  // namespace
}  // namespace ffrfs

int main(int argc, char** argv) {
  const ffrfs::WorkerOptions options = ffrfs::parse_arguments(argc, argv);
  ffrfs::leave_signals_to_daemon();
  ffrfs::allow_many_packs();
  // A full pipe, for example as the daemon is stopped, must not hold up readers.
  fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK);
  // Reads that are still under way are not waited for: their disk may have stalled.
  std::_Exit(ffrfs::run(options));
}
