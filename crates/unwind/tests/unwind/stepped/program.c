// Code that is hard to unwind, without frame pointers: signals, a signal on a stack of its own, longjmp,
// vfork, aligned stacks, tail calls, lazy binding, callbacks of the C library, the vdso, deep recursion.
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long sink;
static jmp_buf back;

__attribute__((noinline)) static long leaf(long x) { return x * 3 + sink; }

__attribute__((noinline)) static long tail_called(long x) { return leaf(x) + leaf(x + 1); }

__attribute__((noinline)) static long tail_calls(long x) { sink += x; return tail_called(x + 1); }

__attribute__((noinline)) static long deep(long n) { return n ? deep(n - 1) + leaf(n) : tail_calls(n); }

// gcc addresses such a frame by r10 and rbp, and its canonical frame address by an expression.
__attribute__((noinline)) static long aligned(long n) {
    volatile long place[8] __attribute__((aligned(64)));
    char *more = alloca(n + 16);
    memset(more, (int)n, n + 16);
    place[0] = more[n];
    return place[0] + deep(n);
}

static int by_value(const void *a, const void *b) {
    sink++;
    return *(const int *)a - *(const int *)b;
}

static void on_signal(int number) { sink += tail_calls(number); }

__attribute__((noinline)) static void far_away(int n) {
    if (n)
        far_away(n - 1);
    longjmp(back, 7);
}

int main(void) {
    int values[24];
    for (int i = 0; i < 24; i++)
        values[i] = (i * 37) % 24;
    qsort(values, 24, sizeof *values, by_value);

    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&other, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);

    if (!setjmp(back))
        far_away(3);
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);

    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sink += aligned(5) + aligned(40);
    char text[64];
    snprintf(text, sizeof text, "%ld %.3f", sink, 1.5);
    return text[0] == 0;
}
