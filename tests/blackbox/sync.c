/* A disk that fails: preloaded, this answers every fdatasync with EIO once the file that SYNC_FAILS names is there. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int file)
{
    const char *sign = getenv("SYNC_FAILS");
    if (sign && access(sign, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, file);
}
