// Two threads that sort texts.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return memcmp(a, b, 16); }
__attribute__((noinline)) static void fill(char *rows, int n) { for (int i = 0; i < n; i++) snprintf(rows + 16 * i, 16, "%015d", i * 7919 % n); }
__attribute__((noinline)) static void *work(void *unused) {
    for (int i = 0; i < 60; i++) {
        char *rows = malloc(16 * 20000);
        fill(rows, 20000);
        qsort(rows, 20000, 16, compare);
        free(rows);
    }
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
