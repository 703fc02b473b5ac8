/* A disk of known latency: shows the files of a folder, read-only, through FUSE.
 *
 *     slow_disk FOLDER MOUNTPOINT COUNTS LATENCY_US DEPTH
 *
 * Shows the files that were directly in FOLDER at the start. Each READ is answered LATENCY_US after
 * it begins. At most DEPTH of them are in progress, and further ones wait. One thread serves each:
 * it takes a request, reads FOLDER's file (whose pages should be cached), sleeps for the rest of
 * the time, and answers.
 * All other requests are answered at once. READs are as large as the kernel makes them, up to
 * 1 MiB, also those of O_DIRECT and of AIO; readahead is as for any FUSE mount; the kernel keeps
 * names and pages as long as the disk is mounted.
 *
 * COUNTS is a file that can be read at any time, without touching the mount. It has three native
 * unsigned 64-bit numbers: the READs answered, their bytes, and the most READs at once.
 *
 * Serves until it is unmounted or gets a signal, even if it is busy. slow_disk.py compiles and runs
 * it.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES_MAX = 4096, DEPTH_MAX = 1024, READ_SIZE_MAX = 1 << 20 };
static const double KEPT_S = 365 * 86400.0;

struct file {
  char* name;
  struct stat attributes;
};
struct counts {
  _Atomic uint64_t reads, bytes, deepest;
};

static struct file files[FILES_MAX]; /* inode: FUSE_ROOT_ID + 1 + place */
static size_t file_count;
static int folder_fd;
static struct counts* counts;
static _Atomic uint64_t turns;
static int64_t latency_ns;

static _Noreturn void die(const char* what) {
  fprintf(stderr, "slow_disk: %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct stat attributes(fuse_ino_t ino) {
  struct stat found = {.st_mode = S_IFDIR | 0555, .st_nlink = 2};
  if (ino != FUSE_ROOT_ID) found = files[ino - FUSE_ROOT_ID - 1].attributes;
  found.st_ino = ino;
  return found;
}

static void get_attributes(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info* info) {
  (void)info;
  const struct stat found = attributes(ino);
  fuse_reply_attr(request, &found, KEPT_S);
}

static int by_name(const void* one, const void* other) {
  return strcmp(((const struct file*)one)->name, ((const struct file*)other)->name);
}

static void look_up(fuse_req_t request, fuse_ino_t parent, const char* name) {
  (void)parent;
  struct fuse_entry_param entry = {.attr_timeout = KEPT_S, .entry_timeout = KEPT_S};
  const struct file wanted = {.name = (char*)name};
  const struct file* found = bsearch(&wanted, files, file_count, sizeof wanted, by_name);
  if (found) {
    entry.ino = FUSE_ROOT_ID + 1 + (fuse_ino_t)(found - files);
    entry.attr = attributes(entry.ino);
  }
  fuse_reply_entry(request, &entry);
}

static void list(fuse_req_t request, fuse_ino_t ino, size_t size, off_t begin,
                 struct fuse_file_info* info) {
  (void)ino, (void)info;
  char* entries = malloc(size);
  size_t used = 0;
  for (size_t place = (size_t)begin; entries && place < file_count; ++place) {
    const struct stat found = attributes(FUSE_ROOT_ID + 1 + place);
    const size_t more = fuse_add_direntry(request, entries + used, size - used,
                                          files[place].name, &found, (off_t)place + 1);
    if (more > size - used) break;
    used += more;
  }
  fuse_reply_buf(request, entries, used);
  free(entries);
}

static void open_file(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info* info) {
  const int fd = openat(folder_fd, files[ino - FUSE_ROOT_ID - 1].name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  info->fh = (uint64_t)fd;
  info->keep_cache = 1;
  if (fuse_reply_open(request, info) != 0) close(fd); /* the open was interrupted */
}

static void release(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info* info) {
  (void)ino;
  close((int)info->fh);
  fuse_reply_err(request, 0);
}

static struct timespec later(struct timespec time, int64_t duration_ns) {
  const int64_t ns = time.tv_nsec + duration_ns;
  return (struct timespec){time.tv_sec + ns / 1000000000, ns % 1000000000};
}

static void begin_turn(void) {
  const uint64_t now = atomic_fetch_add(&turns, 1) + 1;
  uint64_t known = atomic_load(&counts->deepest);
  while (known < now && !atomic_compare_exchange_weak(&counts->deepest, &known, now)) {
  }
}

static void read_file(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                      struct fuse_file_info* info) {
  (void)ino;
  static _Thread_local char buffer[READ_SIZE_MAX];
  struct timespec begin;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  begin_turn();
  if (size > sizeof buffer) size = sizeof buffer;
  const ssize_t count = pread((int)info->fh, buffer, size, offset);
  const int error = count < 0 ? errno : 0;
  const struct timespec end = later(begin, latency_ns);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
  }
  atomic_fetch_sub(&turns, 1);
  if (error) {
    fuse_reply_err(request, error);
    return;
  }
  atomic_fetch_add(&counts->reads, 1); /* before the answer, so that no answered READ is missing */
  atomic_fetch_add(&counts->bytes, (uint64_t)count);
  fuse_reply_buf(request, buffer, (size_t)count);
}

static void begin_session(void* data, struct fuse_conn_info* connection) {
  (void)data;
  /* More than DEPTH, so that reads wait here and not in the kernel. */
  connection->max_background = DEPTH_MAX;
  connection->congestion_threshold = DEPTH_MAX;
}

static void* serve(void* session) {
  struct fuse_buf buffer = {0};
  while (!fuse_session_exited(session)) {
    const int size = fuse_session_receive_buf(session, &buffer);
    if (size == -EINTR) continue;
    if (size <= 0) break; /* unmounted */
    fuse_session_process_buf(session, &buffer);
  }
  free(buffer.mem);
  kill(getpid(), SIGTERM);
  return NULL;
}

static void open_folder(const char* path) {
  DIR* folder = opendir(path);
  if (!folder) die(path);
  folder_fd = dirfd(folder);
  for (struct dirent* entry; file_count < FILES_MAX && (entry = readdir(folder));) {
    struct stat found;
    if (fstatat(folder_fd, entry->d_name, &found, 0) != 0) die(entry->d_name);
    if (S_ISREG(found.st_mode)) {
      files[file_count++] = (struct file){strdup(entry->d_name), found};
    }
  }
  qsort(files, file_count, sizeof *files, by_name);
}

static void open_counts(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || ftruncate(fd, sizeof *counts) != 0) die(path);
  counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (counts == MAP_FAILED) die(path);
  close(fd);
}

int main(int argc, char** argv) {
  const int depth = argc == 6 ? atoi(argv[5]) : 0;
  if (depth < 1 || depth > DEPTH_MAX) {
    fprintf(stderr, "usage: slow_disk FOLDER MOUNTPOINT COUNTS LATENCY_US DEPTH\n");
    return 2;
  }
  latency_ns = atoll(argv[4]) * 1000;
  open_folder(argv[1]);
  open_counts(argv[3]);
  prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise a sleep may last 50 us too long */
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);

  const struct fuse_lowlevel_ops operations = {
      .init = begin_session, .lookup = look_up, .getattr = get_attributes,
      .readdir = list,       .open = open_file, .read = read_file,  .release = release,
  };
  char* options[] = {argv[0], "-oro,fsname=slow_disk"};
  struct fuse_args arguments = FUSE_ARGS_INIT(2, options);
  struct fuse_session* session =
      fuse_session_new(&arguments, &operations, sizeof operations, NULL);
  if (!session || fuse_session_mount(session, argv[2]) != 0) return 1;
  for (int each = 0; each < depth; ++each) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, serve, session);
    if (errno) die("a thread");
  }
  int signal_number;
  sigwait(&ends, &signal_number);
  fuse_session_unmount(session);
  return 0; /* ends all threads, so that waiting readers get an error */
}
