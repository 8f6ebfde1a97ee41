/*
 * A disk that forgets: every write that no fdatasync or fsync followed.
 *
 * Preloaded under a program (LD_PRELOAD), it keeps in FORGETFUL_SHADOW what
 * such a disk would hold of the files below FORGETFUL_WATCH:
 *
 *   fdatasync, fsync   the file's content of this moment goes to the shadow,
 *                      whole or not at all (a copy under another name, renamed);
 *   rename, link,      are carried along at once;
 *   unlink
 *   everything else    (write, pwrite, ftruncate, sync_file_range, mmap, close)
 *                      leaves the shadow as it is.
 *
 * A test kills the program and opens the shadow in place of the folder. The
 * shadow is harsher than a disk: a disk may keep writes that nobody synced.
 * It is milder in one way: a synced file's name needs no sync of its folder.
 *
 * Build: cc -shared -fPIC -O1 -o forgetful.so forgetful.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where `path` lies in the shadow: 1 and `out`, or 0 when it is not watched. */
static int shadow_of(const char *path, char *out)
{
    const char *watch = getenv("FORGETFUL_WATCH");
    const char *shadow = getenv("FORGETFUL_SHADOW");
    char root[PATH_MAX], folder[PATH_MAX], full[2 * PATH_MAX];
    size_t length;

    if (!watch || !shadow || !realpath(watch, root))
        return 0;
    /* The folder is resolved and not the file, which may be gone already. */
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(full, sizeof full, "%.*s", (int)(slash - path) + 1, path);
    else
        snprintf(full, sizeof full, ".");
    if (!realpath(full, folder))
        return 0;
    snprintf(full, sizeof full, "%s/%s", folder, slash ? slash + 1 : path);
    length = strlen(root);
    if (strncmp(full, root, length) != 0 || full[length] != '/')
        return 0;
    return snprintf(out, PATH_MAX, "%s%s", shadow, full + length) < PATH_MAX;
}

static void make_folders(const char *file)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s", file);
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(path, 0700);
            *at = '/';
        }
}

/* Copies what `fd` refers to. A failure is an I/O error of the "disk". */
static int remember(int fd)
{
    char link[64], path[PATH_MAX], target[PATH_MAX], draft[PATH_MAX + 32];
    struct stat status;
    char buffer[1 << 16];
    ssize_t count, done;
    off_t offset = 0;
    int out;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    count = readlink(link, path, sizeof path - 1);
    if (count < 0)
        return 0;
    path[count] = 0;
    if (!shadow_of(path, target) || fstat(fd, &status) || !S_ISREG(status.st_mode))
        return 0;
    /* A file that has no name any more is on no disk after a cut. */
    if (access(path, F_OK))
        return 0;
    make_folders(target);
    /* Beside the shadow: a draft cut short must not look like a file of the program's. */
    snprintf(draft, sizeof draft, "%s.draft.%d.%ld", getenv("FORGETFUL_SHADOW"), getpid(), (long)gettid());
    /* Opened anew: the program's own descriptor may be write-only. */
    int in = open(path, O_RDONLY | O_CLOEXEC);
    out = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, status.st_mode & 0777);
    if (in < 0 || out < 0)
        return -1;
    while ((count = pread(in, buffer, sizeof buffer, offset)) > 0) {
        for (done = 0; done < count;) {
            ssize_t wrote = write(out, buffer + done, (size_t)(count - done));
            if (wrote < 0)
                return -1;
            done += wrote;
        }
        offset += count;
    }
    close(in);
    close(out);
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    return count < 0 ? -1 : real(draft, target);
}

int fdatasync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    return remember(fd) ? (errno = EIO, -1) : real(fd);
}

int fsync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    return remember(fd) ? (errno = EIO, -1) : real(fd);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    char old[PATH_MAX], new[PATH_MAX];
    int result = real(from, to);

    if (result == 0 && shadow_of(from, old) && shadow_of(to, new)) {
        make_folders(new);
        /* What was never synced has no content to bring under the new name,
         * and what lay there is gone. */
        if (real(old, new) && errno == ENOENT)
            remove(new);
    }
    return result;
}

int link(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "link");
    char old[PATH_MAX], new[PATH_MAX];
    int result = real(from, to);

    if (result == 0 && shadow_of(from, old) && shadow_of(to, new)) {
        make_folders(new);
        real(old, new);
    }
    return result;
}

/* Rust links this way, with both paths as they are. */
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    int (*real)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");

    if (from_folder == AT_FDCWD && to_folder == AT_FDCWD && flags == 0)
        return link(from, to);
    return real(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path)
{
    int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
    char target[PATH_MAX];
    int result = real(path);

    if (result == 0 && shadow_of(path, target))
        real(target);
    return result;
}
