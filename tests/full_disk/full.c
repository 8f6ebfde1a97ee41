/*
 * A disk that is full: while the file FULL_FLAG exists, a write to a file
 * below FULL_WATCH takes half of its bytes, and the next one none (ENOSPC), as
 * a file system does whose last block is given away.
 *
 * Preloaded under a program (LD_PRELOAD), like ../durability/forgetful.c.
 *
 * Build: cc -shared -fPIC -O1 -o full.so full.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread int was_halved;

ssize_t write(int fd, const void *bytes, size_t count)
{
    static ssize_t (*real)(int, const void *, size_t);
    const char *watch = getenv("FULL_WATCH"), *flag = getenv("FULL_FLAG");
    char link[64], path[PATH_MAX];
    ssize_t length;

    if (!real)
        real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (!watch || !flag || access(flag, F_OK) != 0)
        return real(fd, bytes, count);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return real(fd, bytes, count);
    path[length] = 0;
    if (strncmp(path, watch, strlen(watch)) != 0)
        return real(fd, bytes, count);
    if (!was_halved && count > 1) {
        was_halved = 1;
        return real(fd, bytes, count / 2);
    }
    was_halved = 0;
    errno = ENOSPC;
    return -1;
}
