/* Makes calls of one process fail while a page of memory says so; loaded with LD_PRELOAD.
 *
 * HOLTER_FAULTS names the page: four 64-bit words that the test writes.
 *   word 0: error of calls that write, such as ENOSPC; 0 for none
 *   word 1: seconds by which the wall clock is wrong
 *   word 2: number of calls that the error struck
 *   word 3: calls that still succeed before the error begins
 * HOLTER_FAULTS_BELOW names the folder whose files are struck.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *page;
static char below[PATH_MAX];

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("HOLTER_FAULTS"), *folder = getenv("HOLTER_FAULTS_BELOW");
    if (!name || !folder) return;
    int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return;
    snprintf(below, sizeof below, "%s", folder);
    page = memory;
}

static int inside(const char *path) { return strncmp(path, below, strlen(below)) == 0; }

static int struck(void) {
    if (__atomic_fetch_sub(&page[3], 1, __ATOMIC_RELAXED) > 0) return 0;
    __atomic_fetch_add(&page[2], 1, __ATOMIC_RELAXED);
    errno = (int)page[0];
    return 1;
}

static int path_struck(const char *path) { return page && page[0] && path && inside(path) && struck(); }

static int file_struck(int file) {
    if (!page || !page[0]) return 0;
    int before = errno;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path) && struck();
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPENS(name, ...)                                              \
    int mode = 0;                                                     \
    if (flags & (O_CREAT | O_TMPFILE)) {                              \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        mode = va_arg(rest, int);                                     \
        va_end(rest);                                                 \
    }                                                                 \
    if ((flags & WRITES) && path_struck(path)) return -1;             \
    return NEXT(name)(__VA_ARGS__, flags, mode);

int open(const char *path, int flags, ...) { OPENS(open, path) }
int open64(const char *path, int flags, ...) { OPENS(open64, path) }
int openat(int folder, const char *path, int flags, ...) { OPENS(openat, folder, path) }
int openat64(int folder, const char *path, int flags, ...) { OPENS(openat64, folder, path) }

#define FAILS(type, name, given, passed, test) \
    type name given { return (test) ? (type)-1 : NEXT(name) passed; }

FAILS(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), file_struck(file))
FAILS(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), file_struck(file))
FAILS(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), file_struck(file))
FAILS(ssize_t, writev, (int file, const struct iovec *data, int count), (file, data, count), file_struck(file))
FAILS(int, ftruncate, (int file, off_t size), (file, size), file_struck(file))
FAILS(int, ftruncate64, (int file, off64_t size), (file, size), file_struck(file))
FAILS(int, fsync, (int file), (file), file_struck(file))
FAILS(int, mkdir, (const char *path, mode_t mode), (path, mode), path_struck(path))
FAILS(int, rename, (const char *from, const char *to), (from, to), path_struck(to))
FAILS(int, link, (const char *from, const char *to), (from, to), path_struck(to))

/* These return the error instead of setting errno. */
int posix_fallocate(int file, off_t at, off_t size) {
    return file_struck(file) ? errno : NEXT(posix_fallocate)(file, at, size);
}
int posix_fallocate64(int file, off64_t at, off64_t size) {
    return file_struck(file) ? errno : NEXT(posix_fallocate64)(file, at, size);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) next;
    if (!next) next = NEXT(clock_gettime);
    int result = next(clock, now);
    if (page && clock == CLOCK_REALTIME && result == 0) now->tv_sec += page[1];
    return result;
}
