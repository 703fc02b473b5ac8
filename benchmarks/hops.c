/* Walks over the records of a TFRecord file and reads only their lengths: the least work that finds
 * all records. It checks no checksum.
 *
 *     hops FILE PASSES
 *
 * Prints JSON: records, and seconds of each pass. tfrecord.py compiles and runs it.
 */
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_SIZE = 12, FRAME_SIZE = 16 };

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t count_records(int fd) {
  unsigned char header[HEADER_SIZE];
  uint64_t count = 0;
  off_t offset = 0;
  while (pread(fd, header, sizeof header, offset) == HEADER_SIZE) {
    uint64_t length;
    memcpy(&length, header, sizeof length);
    offset += (off_t)(FRAME_SIZE + length);
    ++count;
  }
  return count;
}

int main(int argc, char** argv) {
  const int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
  if (fd < 0) {
    perror(argc == 3 ? argv[1] : "usage: hops FILE PASSES");
    return 1;
  }
  uint64_t count = 0;
  printf("{\"seconds\": [");
  for (int pass = 0; pass < atoi(argv[2]); ++pass) {
    const double start = now_s();
    count = count_records(fd);
    printf("%s%.9f", pass ? ", " : "", now_s() - start);
  }
  printf("], \"count\": %" PRIu64 "}\n", count);
  return 0;
}
