// ffrfs-worker: the process that serves one native mount, a child of its daemon.
//
// Started by ffrfs/mount/engines/worker.py, never by hand. It opens the packs, reports that, takes
// the connection, and serves it to its end. The daemon owns everything else: the mount, signals,
// the control socket, the log. Exit status: 0 if the connection or the daemon has ended; 1 if the
// packs cannot be served (the daemon gets the reason).
//
// With --unindexed=N it only lists the packs that have more than N records and no sound mapped
// index, a zero byte after each, and exits with 0.

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

#include "fuse/log.h"
#include "fuse/ring_plan.h"
#include "fuse/uring_transport.h"
#include "io/error.h"
#include "io/file_descriptor.h"
#include "open/open_shards.h"
#include "record/ffrecord_shard.h"
#include "remote/remote_opener.h"
#include "volume/volume.h"
#include "worker/daemon_link.h"
#include "worker/lockdown.h"
#include "worker/session.h"

namespace ffrfs {
namespace {

constexpr int kFailed = 1;
constexpr auto kStopLimit = std::chrono::seconds(5);
constexpr int kWrongUsage = 2;

// How requests come from the kernel: by read(2) on the connection, or over io_uring rings.
enum class Transport { kDev, kUring };
constexpr size_t kRingShare = 8;  // rings take at most 1/8 of the cache's limit

struct WorkerOptions {
  Transport transport = Transport::kDev;
  std::vector<std::string> packs;
  std::optional<uint64_t> unindexed;
  int daemon_socket = -1;
  int fetcher_socket = -1;  // to the fetcher, for URLs
  unsigned remote_timeout_s = 60;
  VolumeOptions volume;
  SessionOptions session;
};

[[noreturn]] void reject_usage(std::string_view what) {
  log_line(Priority::kError, "ffrfs-worker: wrong usage: " + std::string(what));
  std::exit(kWrongUsage);
}

template <typename Number> void parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) reject_usage(text);
}

Transport parse_transport(std::string_view text) {
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
  enum {
    kPack = 1,
    kSocket,
    kCounters,
    kThreads,
    kXattr,
    kAllowRoot,
    kSendOpens,
    kOption,
    kUnindexed,
    kTransport,
    kFetcher,
    kRemoteTimeout,
    kSuspect,
    kQuarantined,
    kLastFile
  };
  const option known[] = {
      {"pack", required_argument, nullptr, kPack},  // any number, at least one
      {"daemon-socket", required_argument, nullptr, kSocket},
      {"fetcher-socket", required_argument, nullptr, kFetcher},
      {"remote-timeout", required_argument, nullptr, kRemoteTimeout},  // seconds
      {"counters", required_argument, nullptr, kCounters},
      {"threads", required_argument, nullptr, kThreads},
      {"transport", required_argument, nullptr, kTransport},  // dev or uring
      {"xattr", no_argument, nullptr, kXattr},
      {"allow-root", no_argument, nullptr, kAllowRoot},
      {"send-opens", no_argument, nullptr, kSendOpens},
      {"option", required_argument, nullptr, kOption},  // NAME=VALUE, of VolumeOptions
      {"suspect", required_argument, nullptr, kSuspect},  // keys of requests; any number
      {"quarantined", required_argument, nullptr, kQuarantined},
      {"last-file", required_argument, nullptr, kLastFile},  // PackPolicy::last_files; any number
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
      case kSuspect: parse(optarg, options.session.suspects.emplace_back()); break;
      case kQuarantined:
        parse(optarg, options.session.operations.quarantined.emplace_back());
        break;
      case kLastFile: options.volume.packs.last_files.emplace_back(optarg); break;
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

// Ignores signals that a terminal or a service manager sends to all processes: the daemon handles
// them, and tells the worker.
void leave_signals_to_daemon() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
}

// Each pack takes two descriptors, and the usual soft limit is meant for select(2).
void allow_many_packs() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void limit_cache(Volume& volume, uint64_t limit_bytes) {
  try {
    volume.limit_cache(static_cast<size_t>(limit_bytes));
  } catch (const std::bad_alloc&) {  // the daemon sends another limit if memory is still short
  }
}

// Handles the daemon's messages until the daemon closes its end of the socket, or is killed. Then
// ends the session in good order, because a killed process keeps its connection while one of its
// threads waits for a disk, and readers would hang.
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

// Creates the rings before the lockdown forbids it. Returns nullptr if none are wanted.
std::unique_ptr<fuse::UringTransport> make_rings(const WorkerOptions& options) {
  if (options.transport == Transport::kDev) return nullptr;
  const auto plan = fuse::plan_rings(fuse::possible_cpu_count(), fuse::own_cpus(),
                                     options.volume.cache_bytes / kRingShare);
  return std::make_unique<fuse::UringTransport>(plan, give_up_capabilities);
}

bool is_unindexed(const std::string& pack, uint64_t indexed_count) {
  try {
    return claimed_record_count(*remote::open_source(pack)).value_or(0) > indexed_count &&
           FfrecordShard(pack, IndexUse::kIfSound).index() == nullptr;
  } catch (const std::exception&) {
    return false;  // opening the pack reports the error
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
  } catch (const std::exception&) {  // opening the packs reports the error
  }
  return std::fflush(stdout) == 0 ? 0 : kFailed;
}

// The daemon sends another link each time a fetcher has ended.
void open_urls_by(const WorkerOptions& options) {
  if (options.fetcher_socket < 0) return;
  remote::set_opener(std::make_shared<remote::RemoteOpener>(
      FileDescriptor(options.fetcher_socket), std::chrono::seconds(options.remote_timeout_s)));
}

void replace_link(FileDescriptor link) {
  if (const auto opener = remote::opener()) opener->replace(std::move(link));
}

// Returns the connection, once the daemon has mounted. The thread also listens while the packs are
// opened: a fetcher may end just then, and opening waits for a link to the next one.
std::future<FileDescriptor> listen_to(DaemonLink& daemon) {
  std::promise<FileDescriptor> promise;
  auto coming = promise.get_future();
  std::thread([&daemon, promise = std::move(promise)]() mutable {
    try {
      FileDescriptor connection = daemon.receive_connection();
      if (!connection.valid()) std::_Exit(0);  // the daemon has ended
      promise.set_value(std::move(connection));
    } catch (const std::exception&) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  return coming;
}

// Throws StorageError if fewer descriptors are left than serving needs: one each for the
// connection, hints, batches that are read ahead, and short uses.
void check_descriptors() {
  constexpr size_t kNeeded = 4;
  std::vector<FileDescriptor> spare;
  while (spare.size() < kNeeded) {
    spare.emplace_back(eventfd(0, EFD_CLOEXEC));
    if (!spare.back().valid()) throw StorageError(errno, "eventfd", "cannot create");
  }
}

struct Opened {
  std::unique_ptr<fuse::UringTransport> rings;
  std::future<FileDescriptor> connection;
  std::unique_ptr<Volume> volume;
};

// Returns nullopt after it has sent the error to the daemon.
std::optional<Opened> open_all(const WorkerOptions& options, DaemonLink& daemon) {
  try {
    Opened opened;
    opened.rings = make_rings(options);
    Lockdown lockdown;
    // Threads inherit the capabilities of the thread that starts them, and these need none.
    opened.connection = std::async(std::launch::async, [&options, &daemon] {
      give_up_capabilities();
      open_urls_by(options);
      return listen_to(daemon);
    }).get();
    opened.volume = std::make_unique<Volume>(options.packs, options.volume);
    const ShardSet& shards = opened.volume->shards();
    for (const std::string& path : shards.unverified_paths()) daemon.send_unverified(path);
    for (const std::string& warning : opened.volume->warnings()) daemon.send_notice(warning);
    for (size_t shard = 0; shard < shards.shard_count(); ++shard) {
      daemon.send_file(shards.shard(shard).file().path(), opened.volume->identity(shard));
    }
    check_descriptors();
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
  // None of the three is destroyed, because the watching thread uses them until the process ends;
  // for the volume see main().
  auto* const daemon = new DaemonLink(options.daemon_socket, replace_link);
  std::optional<Opened> opened = open_all(options, *daemon);
  if (!opened) return kFailed;
  Volume* const volume = opened->volume.release();
  try {
    auto* const session =
        new Session(*volume, opened->connection.get(), options.session, std::move(opened->rings));
    std::thread(watch_daemon, std::ref(*daemon), std::ref(*volume), std::ref(*session)).detach();
    session->serve();
  } catch (const std::exception& error) {
    const ErrorFields fields = fields_of(std::current_exception());
    log_line(Priority::kError, fields.path.empty() ? fields.reason : error.what());
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
  // A full pipe, for example while the daemon is stopped, must not block readers.
  fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) | O_NONBLOCK);
  // Does not wait for reads in flight: their disk may have stalled.
  std::_Exit(ffrfs::run(options));
}
