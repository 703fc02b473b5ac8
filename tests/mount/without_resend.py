"""A worker as on a kernel before Linux 6.9: INIT does not offer HAS_RESEND, and a RESEND fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ffrfs.mount.engines.worker import worker_path

_PRELOADED = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t read(int fd, void* data, size_t size) {
  ssize_t (*next)(int, void*, size_t) = (ssize_t (*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  const ssize_t got = next(fd, data, size);
  uint32_t* words = data;
  if (got == 104 && words[1] == 26) words[10 + 4] &= ~(1u << 7);
  return got;
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  ssize_t (*next)(int, const struct iovec*, int) =
      (ssize_t (*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  const int32_t* words = parts[0].iov_base;
  if (count == 1 && parts[0].iov_len == 16 && words[1] == 7) return errno = EINVAL, -1;
  return next(fd, parts, count);
}
"""


def worker_without_resend(folder: Path) -> Path:
    """Make this program in the folder, for the variable PATH_VARIABLE, and return its path."""
    source, library, program = (folder / name for name in ("hidden.c", "hidden.so", "worker"))
    source.write_text(_PRELOADED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    program.write_text(f'#!/bin/sh\nexec env "LD_PRELOAD={library}" "{worker_path()}" "$@"\n')
    program.chmod(0o755)
    return program
