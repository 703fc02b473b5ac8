/* Reads parts of a file in batches by Linux AIO, past the page cache. It is the yardstick for a
 * program that knows the order of its reads: one thread, no file system between, no checksums.
 *
 *     aio_batches FILE EXTENTS DEPTH
 *
 * EXTENTS holds, for each part, its offset and its size as native unsigned 64-bit numbers.
 * Requests DEPTH parts at a time, and the next ones when all of them have arrived. Prints JSON: the
 * number of parts, and seconds. prefetching.py compiles and runs it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH_MAX = 1024 };
static const uint64_t ALIGNMENT = 4096;

struct extent {
  uint64_t offset, size;
};

static _Noreturn void die(const char* what, int error) {
  fprintf(stderr, "aio_batches: %s: %s\n", what, strerror(error));
  exit(1);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct extent* load_extents(const char* path, size_t* count) {
  struct stat found;
  const int fd = open(path, O_RDONLY);
  if (fd < 0 || fstat(fd, &found) != 0) die(path, errno);
  struct extent* extents = malloc((size_t)found.st_size);
  if (!extents || read(fd, extents, (size_t)found.st_size) != found.st_size) die(path, errno);
  close(fd);
  *count = (size_t)found.st_size / sizeof *extents;
  return extents;
}

/* O_DIRECT needs aligned ranges, so this one is widened to the alignment on both sides. */
static struct extent aligned(struct extent extent) {
  const uint64_t begin = extent.offset / ALIGNMENT * ALIGNMENT;
  const uint64_t end = extent.offset + extent.size;
  return (struct extent){begin, (end - begin + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT};
}

static void read_batch(io_context_t context, int fd, const struct extent* extents, long count,
                       char** buffers) {
  struct iocb controls[DEPTH_MAX], *pointers[DEPTH_MAX];
  struct io_event events[DEPTH_MAX];
  for (long each = 0; each < count; ++each) {
    const struct extent whole = aligned(extents[each]);
    io_prep_pread(&controls[each], fd, buffers[each], whole.size, (long long)whole.offset);
    pointers[each] = &controls[each];
  }
  for (long sent = 0; sent < count;) {
    const int more = io_submit(context, count - sent, pointers + sent);
    if (more < 0) die("io_submit", -more);
    sent += more;
  }
  const int done = io_getevents(context, count, count, events, NULL);
  if (done != count) die("io_getevents", done < 0 ? -done : EIO);
  for (long each = 0; each < count; ++each) {
    const struct extent extent = extents[events[each].obj - controls];
    const uint64_t wanted = extent.offset - aligned(extent).offset + extent.size;
    if ((int64_t)events[each].res < (int64_t)wanted) die("a read came short", EIO);
  }
}

int main(int argc, char** argv) {
  const long depth = argc == 4 ? atol(argv[3]) : 0;
  if (depth < 1 || depth > DEPTH_MAX) {
    fprintf(stderr, "usage: aio_batches FILE EXTENTS DEPTH\n");
    return 2;
  }
  size_t count, size_max = 0;
  const struct extent* extents = load_extents(argv[2], &count);
  for (size_t each = 0; each < count; ++each) {
    const size_t size = aligned(extents[each]).size;
    if (size > size_max) size_max = size;
  }
  char* buffers[DEPTH_MAX];
  for (long each = 0; each < depth; ++each) {
    if (posix_memalign((void**)&buffers[each], ALIGNMENT, size_max)) die("memory", ENOMEM);
  }
  io_context_t context = NULL;
  const int error = io_setup((int)depth, &context);
  if (error) die("io_setup", -error);
  const int fd = open(argv[1], O_RDONLY | O_DIRECT);
  if (fd < 0) die(argv[1], errno);

  const double start = now_s();
  for (size_t first = 0; first < count; first += (size_t)depth) {
    const size_t left = count - first;
    read_batch(context, fd, extents + first, left < (size_t)depth ? (long)left : depth, buffers);
  }
  printf("{\"seconds\": %.9f, \"count\": %zu}\n", now_s() - start, count);
  return 0;
}
