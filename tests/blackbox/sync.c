/* A disk that fails: preloaded, this answers every fdatasync with EIO once the file that SYNC_FAILS names is there, or after
 * the first SYNC_LASTS of them. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int file)
{
    static int done;
    const char *sign = getenv("SYNC_FAILS"), *lasts = getenv("SYNC_LASTS");
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
