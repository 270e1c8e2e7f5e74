// Bends the clocks of one process from outside as NTP bends those of a machine: CLOCK_REALTIME, CLOCK_MONOTONIC and
// CLOCK_BOOTTIME, and the timers on them, run fast by SLEW_PPM millionths (slow where that is negative).
// CLOCK_MONOTONIC_RAW is left alone.
//
//     cc -shared -fPIC -o slew.so slew.c
//     SLEW_PPM=-83000 LD_PRELOAD=./slew.so node ...
//
// The program need not know of it. Its own copy of the vDSO's clock_gettime is overwritten, so that calls without libc are
// bent too; timerfd_settime and futex waits until a moment are trapped by seccomp and translated; timeouts of epoll_wait
// are stretched. Not bent: nanosleep, poll, select. Ends the process with 97 where that is not possible.

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

// The sixth argument of our own timerfd_settime, which has four: the filter lets it pass, also after further execs.
#define OWN_CALL 0x51e3d00dL
// The mask of our own futex waits: every wake reaches them, and the filter lets them pass.
#define OWN_WAIT 0x7fffffffL
#define SECOND 1000000000LL

static long ppm;
// Of each clock, the moment from which it is bent.
static int64_t origin[CLOCK_BOOTTIME + 1];

static long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void fail(const char *what) {
    fprintf(stderr, "slew: %s: %s\n", what, strerror(errno));
    _exit(97);
}

static int is_slewed(long clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME;
}

static int64_t nanos(const struct timespec *t) { return t->tv_sec * SECOND + t->tv_nsec; }

static struct timespec moment(int64_t n) { return (struct timespec){n / SECOND, n % SECOND}; }

static double rate(void) { return 1.0 + (double)ppm / 1e6; }

static int64_t true_span(int64_t span) { return (int64_t)((double)span / rate()); }

static long bent_gettime(long clock, struct timespec *t) {
    long result = call(SYS_clock_gettime, clock, (long)t, 0, 0, 0, 0);
    if (result == 0 && is_slewed(clock)) {
        int64_t since = nanos(t) - origin[clock];
        *t = moment(origin[clock] + (int64_t)((double)since * rate()));
    }
    return result;
}

// By the kernel's clock, a moment of the bent one.
static struct timespec true_moment(long clock, const struct timespec *t) {
    int64_t since = nanos(t) - origin[clock];
    return since <= 0 ? *t : moment(origin[clock] + true_span(since));
}

static void trapped(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (info->si_syscall == SYS_timerfd_settime) {
        struct itimerspec when = *(struct itimerspec *)g[REG_RDX];
        if (!(g[REG_RSI] & TFD_TIMER_ABSTIME))
            when.it_value = moment(true_span(nanos(&when.it_value)));
        else if (nanos(&when.it_value) > 0) // every timer of the program is on this clock
            when.it_value = true_moment(CLOCK_BOOTTIME, &when.it_value);
        when.it_interval = moment(true_span(nanos(&when.it_interval)));
        g[REG_RAX] = call(SYS_timerfd_settime, g[REG_RDI], g[REG_RSI], (long)&when, g[REG_R10], 0, OWN_CALL);
    } else {
        long clock = g[REG_RSI] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        struct timespec until = true_moment(clock, (struct timespec *)g[REG_R10]);
        g[REG_RAX] = call(SYS_futex, g[REG_RDI], g[REG_RSI], g[REG_RDX], (long)&until, g[REG_R8], OWN_WAIT);
    }
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
    long result = call(SYS_epoll_wait, fd, (long)events, most, timeout > 0 ? true_span(timeout) : timeout, 0, 0);
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return (int)result;
}

static void bend_vdso(void) {
    char *base = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!base) fail("there is no vDSO");
    Elf64_Ehdr *header = (Elf64_Ehdr *)base;
    Elf64_Phdr *segments = (Elf64_Phdr *)(base + header->e_phoff);
    Elf64_Dyn *entry = NULL;
    size_t bytes = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD) bytes = (segments[i].p_memsz + 0xfff) & ~(size_t)0xfff;
        if (segments[i].p_type == PT_DYNAMIC) entry = (Elf64_Dyn *)(base + segments[i].p_offset);
    }
    // The image is linked at zero.
    Elf64_Sym *symbols = NULL;
    char *names = NULL;
    for (; entry && entry->d_tag; entry++) {
        if (entry->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(base + entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) names = base + entry->d_un.d_ptr;
    }
    if (!symbols || !names) fail("the vDSO has no symbols");
    if (mprotect(base, bytes, PROT_READ | PROT_WRITE | PROT_EXEC)) fail("the vDSO cannot be written");
    int found = 0;
    for (Elf64_Sym *symbol = symbols + 1; (char *)(symbol + 1) <= names; symbol++) {
        if (strcmp(names + symbol->st_name, "__vdso_clock_gettime")) continue;
        unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; // mov rax, target; jmp rax
        void *target = (void *)bent_gettime;
        memcpy(jump + 2, &target, sizeof target);
        memcpy(base + symbol->st_value, jump, sizeof jump);
        found = 1;
    }
    if (!found) fail("the vDSO has no clock_gettime");
    mprotect(base, bytes, PROT_READ | PROT_EXEC);
}

static void bend_timers(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL)) fail("sigaction");
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define LOW(argument) LOAD(offsetof(struct seccomp_data, args) + 8 * (argument))
#define HIGH(argument) LOAD(offsetof(struct seccomp_data, args) + 8 * (argument) + 4)
#define EQUAL(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
    struct sock_filter filter[] = {
        /*  0 */ LOAD(offsetof(struct seccomp_data, nr)),
        /*  1 */ EQUAL(SYS_timerfd_settime, 0, 2),
        /*  2 */ LOW(5),
        /*  3 */ EQUAL(OWN_CALL, 11, 10),
        /*  4 */ EQUAL(SYS_futex, 0, 10),
        /*  5 */ LOW(1),
        /*  6 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FUTEX_CMD_MASK & 0x7f),
        /*  7 */ EQUAL(FUTEX_WAIT_BITSET, 0, 7),
        /*  8 */ LOW(5),
        /*  9 */ EQUAL(FUTEX_BITSET_MATCH_ANY, 0, 5),
        // Without a timeout it waits for ever.
        /* 10 */ LOW(3),
        /* 11 */ EQUAL(0, 0, 2),
        /* 12 */ HIGH(3),
        /* 13 */ EQUAL(0, 1, 0),
        /* 14 */ RETURN(SECCOMP_RET_TRAP),
        /* 15 */ RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no_new_privs");
    errno = (int)-call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0, 0);
    if (errno) fail("seccomp");
}

// By libc, as the program reads it.
static int64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return nanos(&t);
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("SLEW_PPM");
    if (!text || !(ppm = atol(text))) return;
    for (clockid_t clock = 0; clock <= CLOCK_BOOTTIME; clock++)
        if (is_slewed(clock)) origin[clock] = read_clock(clock);
    bend_vdso();
    bend_timers();
    // A preemption between two reads spoils a measurement, not twenty.
    for (int i = 0; i < 20; i++) {
        int64_t boot = read_clock(CLOCK_BOOTTIME), raw = read_clock(CLOCK_MONOTONIC_RAW);
        struct timespec pause = moment(SECOND / 20);
        nanosleep(&pause, NULL);
        boot = read_clock(CLOCK_BOOTTIME) - boot;
        raw = read_clock(CLOCK_MONOTONIC_RAW) - raw;
        double measured = (double)boot / (double)raw;
        if (measured < rate() - 0.005 || measured > rate() + 0.005) continue;
        fprintf(stderr, "slew: CLOCK_BOOTTIME runs at %.3f of CLOCK_MONOTONIC_RAW\n", measured);
        return;
    }
    fail("the clocks are not bent");
}
