/* Imitates a failing or slow disk: every fdatasync returns EIO once the file named in SYNC_FAILS exists, or after the first
 * SYNC_LASTS calls, and takes at least SYNC_TAKES milliseconds. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int file)
{
    static int done;
    const char *sign = getenv("SYNC_FAILS"), *lasts = getenv("SYNC_LASTS"), *takes = getenv("SYNC_TAKES");
    if (takes) usleep(1000 * atoi(takes));
    if (lasts && __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED) >= atoi(lasts)) {
        errno = EIO;
        return -1;
    }
    if (sign && access(sign, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, file);
}
