/* Allocates and frees until it is told to end. Arguments: FILE RATE FORGET THREADS.
 *
 * FILE holds three numbers of 8 bytes: the process, its allocations until now, and what ends it if it is not 0. RATE is
 * the allocations of a thread in a second, 0 as many as it can; of FORGET allocations one is never freed, 0 none. Each
 * block is checked when it is freed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RING = 256, BATCH = 100, FORGOTTEN_BYTES = 1000 };

static volatile uint64_t *shared;
static long rate, forget_every;

__attribute__((noinline)) static unsigned char *fetch(uint64_t number) {
    size_t size = 16 + number * 37 % 512;
    unsigned char *block = malloc(size);
    block[0] = block[size - 1] = (unsigned char)number;
    return block;
}

__attribute__((noinline)) static void give_back(unsigned char *block, uint64_t number) {
    size_t size = 16 + number * 37 % 512;
    if (block[0] != (unsigned char)number || block[size - 1] != (unsigned char)number) abort();
    free(block);
}

__attribute__((noinline)) static void *forget(void) {
    void *volatile block = malloc(FORGOTTEN_BYTES);
    return block;
}

static void rest(struct timespec *until) {
    until->tv_nsec += 1000000000L / (rate / BATCH);
    if (until->tv_nsec >= 1000000000L) { until->tv_nsec -= 1000000000L; until->tv_sec++; }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, until, NULL);
}

static void *work(void *unused) {
    unsigned char *ring[RING] = {0};
    uint64_t number = 0;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    while (shared[2] == 0) {
        for (int i = 0; i < BATCH; i++, number++) {
            unsigned char **slot = &ring[number % RING];
            if (*slot != NULL) give_back(*slot, number - RING);
            *slot = fetch(number);
            if (forget_every != 0 && number % (uint64_t)forget_every == (uint64_t)forget_every / 2) forget();
        }
        __atomic_fetch_add(&shared[1], BATCH, __ATOMIC_RELAXED);
        if (rate != 0) rest(&until);
    }
    return unused;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    int file = open(words[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 24) != 0) return 1;
    shared = mmap(NULL, 24, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) return 1;
    rate = atol(words[2]);
    forget_every = atol(words[3]);
    long threads = atol(words[4]);
    shared[0] = (uint64_t)getpid();
    for (long i = 1; i < threads; i++) {
        pthread_t other;
        if (pthread_create(&other, NULL, work, NULL) != 0) return 1;
    }
    work(NULL);
    return 0;
}
