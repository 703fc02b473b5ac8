/* The smallest possible server of /dev/fuse: it shows one file, and checks no bytes.
 *
 *     unverified FILE MOUNTPOINT
 *
 * Shows FILE as the only file of MOUNTPOINT, under its own name, read-only. Two threads take
 * requests; a READ is one pread(2) and one write(2). READs are up to 1 MiB, the kernel's
 * readahead is 4 MiB, as for a mount of ffrfs. No server of this protocol that checks its bytes can
 * be faster: this one copies each byte as often, and does nothing else.
 *
 * Serves until it is unmounted or killed. streaming.py compiles and runs it; needs root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { READ_SIZE_MAX = 1 << 20, MESSAGE_SIZE_MAX = 1 << 17, FILE_INODE = 2, THREADS = 2 };
static const uint64_t KEPT_S = 365 * 86400;

static int file, connection;
static uint64_t file_size;
static const char* file_name;

struct answer {
  struct fuse_out_header header;
  char body[READ_SIZE_MAX];
};

static void describe(uint64_t inode, struct fuse_attr* attr) {
  *attr = (struct fuse_attr){.ino = inode, .nlink = 1, .mode = S_IFDIR | 0555, .blksize = 4096};
  if (inode != FILE_INODE) return;
  attr->mode = S_IFREG | 0444;
  attr->size = file_size;
  attr->blocks = (file_size + 511) / 512;
}

static long begin(const struct fuse_init_in* offer, struct fuse_init_out* out) {
  const uint32_t wanted = FUSE_ASYNC_READ | FUSE_MAX_PAGES | FUSE_NO_OPEN_SUPPORT |
                          FUSE_NO_OPENDIR_SUPPORT | FUSE_PARALLEL_DIROPS;
  *out = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION, .minor = 31,
                                .max_readahead = offer->max_readahead,
                                .flags = offer->flags & wanted, .max_background = 64,
                                .congestion_threshold = 48, .max_write = 4096, .time_gran = 1,
                                .max_pages = READ_SIZE_MAX / 4096};
  return sizeof *out;
}

/* The size of the body, or -errno. */
static long serve(const struct fuse_in_header* header, const void* argument, char* body) {
  switch (header->opcode) {
    case FUSE_INIT: return begin(argument, (struct fuse_init_out*)body);
    case FUSE_LOOKUP: {
      struct fuse_entry_out* out = (struct fuse_entry_out*)body;
      if (strcmp(argument, file_name)) return -ENOENT;
      *out = (struct fuse_entry_out){.nodeid = FILE_INODE, .entry_valid = KEPT_S,
                                     .attr_valid = KEPT_S};
      describe(FILE_INODE, &out->attr);
      return sizeof *out;
    }
    case FUSE_GETATTR: {
      struct fuse_attr_out* out = (struct fuse_attr_out*)body;
      *out = (struct fuse_attr_out){.attr_valid = KEPT_S};
      describe(header->nodeid, &out->attr);
      return sizeof *out;
    }
    case FUSE_READ: {
      const struct fuse_read_in* in = argument;
      if (in->size > READ_SIZE_MAX) return -EINVAL;
      const ssize_t count = pread(file, body, in->size, in->offset);
      return count < 0 ? -errno : count;
    }
    default: return -ENOSYS;
  }
}

static void* receive(void* unused) {
  struct answer* answer = malloc(sizeof *answer);
  char* message = malloc(MESSAGE_SIZE_MAX);
  if (!answer || !message) exit(1);
  for (;;) {
    const ssize_t size = read(connection, message, MESSAGE_SIZE_MAX);
    if (size < 0 && (errno == EINTR || errno == ENOENT)) continue;
    if (size < (ssize_t)sizeof(struct fuse_in_header)) break;
    const struct fuse_in_header* header = (const struct fuse_in_header*)message;
    if (header->opcode == FUSE_FORGET || header->opcode == FUSE_BATCH_FORGET ||
        header->opcode == FUSE_INTERRUPT) {
      continue;
    }
    const long count = serve(header, header + 1, answer->body);
    const size_t length = sizeof answer->header + (count > 0 ? count : 0);
    answer->header = (struct fuse_out_header){.len = length, .error = count < 0 ? count : 0,
                                              .unique = header->unique};
    if (write(connection, answer, length) < 0 && errno == ENODEV) break;
  }
  return unused;
}

static void read_ahead(const char* mountpoint, unsigned size_kb) {
  struct stat root;
  char path[128];
  if (stat(mountpoint, &root) != 0) return;
  snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(root.st_dev),
           minor(root.st_dev));
  FILE* const setting = fopen(path, "w");
  if (!setting) return;
  fprintf(setting, "%u", size_kb);
  fclose(setting);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  struct stat facts;
  file = open(arguments[1], O_RDONLY);
  connection = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (file < 0 || connection < 0 || fstat(file, &facts) != 0) return perror(arguments[1]), 1;
  file_size = facts.st_size;
  file_name = basename(arguments[1]);
  char options[96];
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", connection);
  const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  if (mount("unverified", arguments[2], "fuse.unverified", flags, options) != 0) {
    return perror("mount"), 1;
  }
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, receive, NULL);
  read_ahead(arguments[2], 4096);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return 0;
}
