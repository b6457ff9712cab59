/* Fails the creation of the thread with the number in THREAD_FAILS, counted from 1. Writes the number of all attempts to the
 * file named in THREAD_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int asked;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    int number = atomic_fetch_add(&asked, 1) + 1;
    const char *count = getenv("THREAD_COUNT");
    if (count) {
        int file = open(count, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file >= 0) {
            dprintf(file, "%d\n", number);
            close(file);
        }
    }
    const char *fails = getenv("THREAD_FAILS");
    if (fails && atoi(fails) == number) return EAGAIN;
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, start, argument);
}
