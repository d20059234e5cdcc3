/* Makes one system call below one folder fail: preloaded into a process that arms it.

   Counts write, pwrite, fsync, fdatasync, ftruncate, rename(at), link, mkdir(at) and symlink(at)
   whose file lies below the folder; the n-th one fails with an error number, or writes half
   (error number -1). Test code only: the package knows nothing of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char root[512];
static size_t length;
static int left, wrong, seen;

void fault_arm(const char *folder, int at, int number)
{
    strncpy(root, folder, sizeof root - 1);
    length = strlen(root);
    left = at;
    wrong = number;
    seen = 0;
}

int fault_seen(void) { return seen; }

static int below(int fd)
{
    char link[64], path[1024];
    ssize_t size;
    if (!length)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return !strncmp(path, root, length) && !strstr(path, "-shm");
}

/* 0: go on; an error number: fail; -1: write half. */
static int hit(void)
{
    seen++;
    return --left == 0 ? wrong : 0;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)
#define FAIL(e) do { int e_ = (e); if (e_ > 0) { errno = e_; return -1; } } while (0)

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    if (below(fd)) {
        int e = hit();
        FAIL(e);
        if (e < 0 && size > 1) size /= 2;
    }
    return real(fd, data, size);
}

#define PWRITE(name) \
ssize_t name(int fd, const void *data, size_t size, off_t at) \
{ \
    REAL(ssize_t, #name, int, const void *, size_t, off_t); \
    if (below(fd)) { \
        int e = hit(); \
        FAIL(e); \
        if (e < 0 && size > 1) size /= 2; \
    } \
    return real(fd, data, size, at); \
}
PWRITE(pwrite)
PWRITE(pwrite64)

#define ON_FD(name) \
int name(int fd) \
{ \
    REAL(int, #name, int); \
    if (below(fd)) FAIL(hit()); \
    return real(fd); \
}
ON_FD(fsync)
ON_FD(fdatasync)

#define TRUNCATE(name) \
int name(int fd, off_t size) \
{ \
    REAL(int, #name, int, off_t); \
    if (below(fd)) FAIL(hit()); \
    return real(fd, size); \
}
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int renameat(int from, const char *old, int to, const char *new)
{
    REAL(int, "renameat", int, const char *, int, const char *);
    if (below(from)) FAIL(hit());
    return real(from, old, to, new);
}

int mkdirat(int fd, const char *name, mode_t mode)
{
    REAL(int, "mkdirat", int, const char *, mode_t);
    if (below(fd)) FAIL(hit());
    return real(fd, name, mode);
}

int symlinkat(const char *target, int fd, const char *name)
{
    REAL(int, "symlinkat", const char *, int, const char *);
    if (below(fd)) FAIL(hit());
    return real(target, fd, name);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, "mkdir", const char *, mode_t);
    if (length && !strncmp(path, root, length)) FAIL(hit());
    return real(path, mode);
}
