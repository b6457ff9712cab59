/* Simulates a power cut for a process that writes files: unsynced data is lost. Preloaded into the process, this
 * library maintains a second directory, the image, with the contents that a disk would have if the power failed now.
 *
 * POWER_ROOT     the directory whose files are watched
 * POWER_IMAGE    the image of it
 * POWER_SCATTER  a seed: each write also reaches the image immediately with a probability of one half, and a quarter of
 *                those only partially, in whole sectors. So writes arrive out of order and torn. Without it a write
 *                reaches the image only when its file is synced.
 * POWER_BARRIER  "off": fdatasync returns without doing anything, to show that the test detects it.
 *
 * File names (created, renamed and removed files) reach the image immediately; only contents are delayed. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SECTOR = 512, FILES = 64 };

struct range {
    off_t start, end;
};

/* A file with its writes since the last sync. */
struct file {
    char name[256];
    struct range *ranges;
    size_t count, room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file files[FILES];
static const char *root, *image;
static int scatter, barrier_off;
static uint64_t chance_state;

static void fail(const char *what)
{
    fprintf(stderr, "power.c: %s: %s\n", what, strerror(errno));
    _exit(99);
}

__attribute__((constructor)) static void begin(void)
{
    const char *seed = getenv("POWER_SCATTER"), *barrier = getenv("POWER_BARRIER");
    root = getenv("POWER_ROOT");
    image = getenv("POWER_IMAGE");
    scatter = seed != NULL;
    chance_state = seed ? strtoull(seed, NULL, 10) : 0;
    barrier_off = barrier && strcmp(barrier, "off") == 0;
}

static uint64_t chance(void)
{
    uint64_t mixed = chance_state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

/* Returns the name below the root, or NULL for files elsewhere. */
static const char *below_root(const char *path)
{
    size_t length;
    if (!root || !image)
        return NULL;
    length = strlen(root);
    return strncmp(path, root, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static struct file *file_of(int descriptor)
{
    char link[64], path[PATH_MAX];
    const char *name;
    ssize_t length;
    if (!root || !image)
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return NULL;
    path[length] = 0;
    name = below_root(path);
    if (!name || strlen(name) >= sizeof files[0].name)
        return NULL;
    for (int i = 0; i < FILES; i++) {
        if (files[i].name[0] == 0)
            strcpy(files[i].name, name);
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    }
    errno = ENFILE;
    fail("too many files");
    return NULL;
}

static void in_image(char *path, const char *name)
{
    if (snprintf(path, PATH_MAX, "%s/%s", image, name) >= PATH_MAX)
        fail("a long name");
}

static int open_image(const struct file *file)
{
    char path[PATH_MAX];
    int descriptor;
    in_image(path, file->name);
    for (char *slash = path + strlen(image) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0700);
    }
    descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0)
        fail(path);
    return descriptor;
}

static void copy_range(int from, int to, off_t start, off_t end)
{
    static char bytes[1 << 16];
    while (start < end) {
        size_t wanted = (size_t)(end - start) < sizeof bytes ? (size_t)(end - start) : sizeof bytes;
        ssize_t got = syscall(SYS_pread64, from, bytes, wanted, start);
        if (got < 0)
            fail("read");
        if (got == 0)
            return; /* truncated since */
        if (syscall(SYS_pwrite64, to, bytes, (size_t)got, start) != got)
            fail("write to the image");
        start += got;
    }
}

/* Opens the real file again for reading, because the process may have opened it for writing only. */
static int reopen(const struct file *file)
{
    char path[PATH_MAX];
    int descriptor;
    if (snprintf(path, sizeof path, "%s/%s", root, file->name) >= PATH_MAX)
        fail("a long name");
    descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        fail(path);
    return descriptor;
}

static void note(int descriptor, off_t start, size_t length)
{
    struct file *file;
    int saved = errno;
    pthread_mutex_lock(&lock);
    file = file_of(descriptor);
    if (file) {
        int to = open_image(file);
        if (scatter && chance() % 2) {
            off_t from = start, end = start + (off_t)length;
            int source = reopen(file);
            if (chance() % 4 == 0) { /* torn: some sectors at one end are missing */
                off_t sectors = (end - start) / SECTOR;
                off_t lost = sectors ? (off_t)(chance() % (uint64_t)sectors + 1) * SECTOR : 0;
                if (chance() % 2)
                    end = (end - lost) / SECTOR * SECTOR;
                else
                    from = (from + lost) / SECTOR * SECTOR;
                if (from < start)
                    from = start;
            }
            copy_range(source, to, from, end);
            close(source);
        }
        close(to);
        if (file->count == file->room) {
            file->room = file->room ? 2 * file->room : 64;
            file->ranges = realloc(file->ranges, file->room * sizeof *file->ranges);
            if (!file->ranges)
                fail("memory");
        }
        file->ranges[file->count++] = (struct range){ start, start + (off_t)length };
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static int sync_file(int descriptor)
{
    struct file *file;
    int saved = errno;
    pthread_mutex_lock(&lock);
    file = file_of(descriptor);
    if (file) {
        struct stat now;
        int source = reopen(file), to = open_image(file);
        for (size_t i = 0; i < file->count; i++)
            copy_range(source, to, file->ranges[i].start, file->ranges[i].end);
        file->count = 0;
        if (fstat(source, &now) != 0 || syscall(SYS_ftruncate, to, now.st_size) != 0)
            fail("length");
        close(source);
        close(to);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return 0;
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t at)
{
    ssize_t written = syscall(SYS_pwrite64, descriptor, bytes, length, at);
    if (written > 0)
        note(descriptor, at, (size_t)written);
    return written;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t at)
{
    return pwrite64(descriptor, bytes, length, at);
}

ssize_t write(int descriptor, const void *bytes, size_t length)
{
    ssize_t written = syscall(SYS_write, descriptor, bytes, length);
    if (written > 0 && root) {
        off_t end = lseek(descriptor, 0, SEEK_CUR);
        if (end >= written)
            note(descriptor, end - written, (size_t)written);
        else
            errno = 0; /* a pipe */
    }
    return written;
}

int fsync(int descriptor)
{
    return sync_file(descriptor);
}

int fdatasync(int descriptor)
{
    return barrier_off ? 0 : sync_file(descriptor);
}

int rename(const char *old, const char *new)
{
    const char *from = below_root(old), *to = below_root(new);
    int result;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
    if (result == 0 && from && to) {
        char old_image[PATH_MAX], new_image[PATH_MAX];
        in_image(old_image, from);
        in_image(new_image, to);
        syscall(SYS_renameat2, AT_FDCWD, old_image, AT_FDCWD, new_image, 0);
        for (int i = 0; i < FILES; i++)
            if (strcmp(files[i].name, from) == 0 && strlen(to) < sizeof files[i].name)
                strcpy(files[i].name, to);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path)
{
    const char *name = below_root(path);
    int result;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0 && name) {
        char path_image[PATH_MAX];
        in_image(path_image, name);
        syscall(SYS_unlinkat, AT_FDCWD, path_image, 0);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
