/* Allocates in a dozen places, by every function that allocates, the same each time. What it keeps is never freed. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE __attribute__((noinline)) static

static void *volatile last;

PLACE void *by_malloc(size_t size) { last = malloc(size); return last; }
PLACE void *by_calloc(size_t size) { last = calloc(3, size); return last; }
PLACE void *by_memalign(size_t size) { last = memalign(64, size); return last; }
PLACE void *by_aligned_alloc(size_t size) { last = aligned_alloc(128, size); return last; }
PLACE void *by_valloc(size_t size) { last = valloc(size); return last; }
PLACE void *by_strdup(const char *text) { last = strdup(text); return last; }
PLACE void *grown(void *block, size_t size) { last = realloc(block, size); return last; }
PLACE void *grown_array(void *block, size_t count) { last = reallocarray(block, count, 7); return last; }

PLACE void *by_posix_memalign(size_t size) {
    void *block = NULL;
    if (posix_memalign(&block, 32, size) != 0) exit(1);
    last = block;
    return last;
}

PLACE void *by_asprintf(int number) {
    char *text = NULL;
    if (asprintf(&text, "number %08d of the text", number) < 0) exit(1);
    last = text;
    return last;
}

/* A list whose nodes are freed later, in another order. */
struct node { struct node *next; char room[56]; };

PLACE struct node *with_node(struct node *next) {
    struct node *node = malloc(sizeof *node);
    node->next = next;
    last = node;
    return node;
}

PLACE void *kept_forever(size_t size) { last = malloc(size); return last; }

int main(void) {
    struct node *list = NULL;
    void *growing = NULL, *array = NULL;
    for (int round = 0; round < 2000; round++) {
        free(by_malloc(16 + round % 1000));
        free(by_calloc(100 + round % 32));
        free(by_memalign(192));
        free(by_aligned_alloc(384));
        free(by_posix_memalign(600));
        free(by_strdup("a text of thirty-one characters"));
        free(by_asprintf(round));
        if (round % 100 == 0) free(by_valloc(5000));
        list = with_node(list);
        if (round % 4 == 0) kept_forever(40 + round % 7);
        growing = grown(growing, 24 * (1 + round % 100));
        array = grown_array(array, 1 + round % 50);
        /* Freed, a size of none. */
        if (round % 500 == 499) { array = realloc(array, 0); array = NULL; }
    }
    for (struct node *next; list != NULL; list = next) { next = list->next; free(list); }
    free(growing);
    free(array);
    puts("done");
    return 0;
}
