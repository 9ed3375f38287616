// What `--mode pages` may slow down: a name and a number of rounds; CPU time of a round, nanoseconds.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TOUCHED = 256 };

static char *map(size_t bytes) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static volatile unsigned sink;

int main(int count, char **words) {
    if (count != 3) return 2;
    long rounds = atol(words[2]);
    struct timespec begin, end;
    char *memory = 0;
    if (!strcmp(words[1], "touch")) {
        memory = map(TOUCHED * 4096);
        madvise(memory, TOUCHED * 4096, MADV_NOHUGEPAGE);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (long round = 0; round < rounds; round++) {
        if (memory) {
            // Few pages, given back and touched again: those that the machine never used take longer.
            if (round % TOUCHED == 0) madvise(memory, TOUCHED * 4096, MADV_DONTNEED);
            memory[round % TOUCHED * 4096] = 1;
        } else if (!strcmp(words[1], "map")) {
            char *mapped = map(65536);
            mapped[0] = 1;
            munmap(mapped, 65536);
        } else if (!strcmp(words[1], "call")) {
            syscall(SYS_getppid);
        } else {
            for (int i = 0; i < 1000; i++) sink = sink * 31 + 7;
        }
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("%.1f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / rounds);
    return 0;
}
