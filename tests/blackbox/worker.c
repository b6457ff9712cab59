/* Disturbs the event loop of the thread with the name WORKER_NAME. While the file WORKER_HANGS exists, the thread sleeps
 * instead of waiting for events. If the file WORKER_DIES exists, the wait fails, and the thread panics. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout) {
    int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
    const char *worker = getenv("WORKER_NAME"), *hangs = getenv("WORKER_HANGS"), *dies = getenv("WORKER_DIES");
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (worker && hangs && dies && strcmp(name, worker) == 0) {
        while (access(hangs, F_OK) == 0) usleep(5000);
        if (access(dies, F_OK) == 0) {
            errno = EBADF;
            return -1;
        }
    }
    return next(epoll, events, count, timeout);
}
