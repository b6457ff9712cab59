/* Records the instructions of one thread, each with its registers. The thread receives the signal STEPS_SIGNAL to begin, and
 * again to end. The processor's trap flag then interrupts it after each instruction. Meanwhile, the monotonic clock of the
 * thread stands still, so that no timeout passes. The recording is written to the file STEPS_FILE: the thread's fs base, then
 * for each instruction a mask of the registers that have changed, its address, and their values. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define TRAP_FLAG 0x100
#define REGISTERS 16
#define ROOM ((size_t)2 << 30)

static unsigned char *recording;
static size_t length;
static greg_t last[REGISTERS];
static atomic_int recorded_thread;
/* Time at which the clock of the thread stands, in nanoseconds. */
static int64_t stands_at;

static int64_t now(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
    if (clock != CLOCK_MONOTONIC || recorded_thread == 0 || recorded_thread != syscall(SYS_gettid)) return 0;
    int64_t shown = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec - (now(CLOCK_MONOTONIC) - stands_at);
    time->tv_sec = shown / 1000000000;
    time->tv_nsec = shown % 1000000000;
    return 0;
}

static void put(const void *bytes, size_t count) {
    if (length + count > ROOM) abort();
    memcpy(recording + length, bytes, count);
    length += count;
}

static void step(int signal, siginfo_t *info, void *place) {
    greg_t *registers = ((ucontext_t *)place)->uc_mcontext.gregs;
    /* In the order of REG_R8 to REG_RSP in <sys/ucontext.h>. */
    uint16_t changed = 0;
    for (int number = 0; number < REGISTERS; number++) {
        if (registers[number] != last[number]) changed |= 1 << number;
    }
    put(&changed, sizeof changed);
    put(&registers[REG_RIP], sizeof(greg_t));
    for (int number = 0; number < REGISTERS; number++) {
        if (changed & 1 << number) {
            put(&registers[number], sizeof(greg_t));
            last[number] = registers[number];
        }
    }
}

static void begin_or_end(int signal, siginfo_t *info, void *place) {
    int error = errno;
    greg_t *flags = &((ucontext_t *)place)->uc_mcontext.gregs[REG_EFL];
    int thread = syscall(SYS_gettid);
    if (recorded_thread == 0) {
        uint64_t base = (uint64_t)pthread_self();
        length = 0;
        memset(last, 0, sizeof last);
        put(&base, sizeof base);
        stands_at = now(CLOCK_MONOTONIC);
        recorded_thread = thread;
        *flags |= TRAP_FLAG;
    } else if (recorded_thread == thread) {
        *flags &= ~TRAP_FLAG;
        char part[4096];
        snprintf(part, sizeof part, "%s.part", getenv("STEPS_FILE"));
        int file = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (size_t written = 0; file >= 0 && written < length;) {
            ssize_t count = write(file, recording + written, length - written);
            if (count <= 0) break;
            written += count;
        }
        close(file);
        rename(part, getenv("STEPS_FILE"));
        recorded_thread = 0;
    }
    errno = error;
}

__attribute__((constructor)) static void prepare(void) {
    const char *number = getenv("STEPS_SIGNAL");
    if (!number || !getenv("STEPS_FILE")) return;
    recording = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGTRAP, &action, NULL);
    action.sa_sigaction = begin_or_end;
    sigaction(atoi(number), &action, NULL);
}
