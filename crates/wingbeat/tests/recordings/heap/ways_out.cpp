// Leaves allocations in every possible way, and records how each ended. With OWN it has its own allocator, which calls
// the handler of `std::set_new_handler`.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <new>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
#define HUGE_SIZE ((size_t)1 << 52)
// Size for which our `malloc` calls the handler.
#define ASKING 4242

#if defined OWN
extern "C" {
static char pool[64 << 20];
static size_t used_bytes;
APART void *malloc(size_t size) {
    if (size == ASKING && std::get_new_handler()) std::get_new_handler()();
    size_t need = (size + 31) & ~(size_t)15;
    if (size > HUGE_SIZE / 2 || used_bytes + need > sizeof pool) return nullptr;
    char *block = pool + used_bytes;
    used_bytes += need;
    *(size_t *)block = size;
    return block + 16;
}
// Frees the last block only.
APART void free(void *block) {
    char *start = (char *)block - 16;
    if (block && start + ((*(size_t *)start + 31) & ~(size_t)15) == pool + used_bytes) used_bytes = start - pool;
}
void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : block;
}
void *realloc(void *block, size_t size) {
    void *other = malloc(size);
    if (other && block) memcpy(other, block, size < ((size_t *)block)[-2] ? size : ((size_t *)block)[-2]);
    return other;
}
}
APART void *operator new(size_t size) {
    for (;;) {
        size_t need = (size + 31) & ~(size_t)15;
        if (size < HUGE_SIZE / 2 && used_bytes + need <= sizeof pool) {
            char *block = pool + used_bytes;
            used_bytes += need;
            *(size_t *)block = size;
            return block + 16;
        }
        if (!std::get_new_handler()) throw std::bad_alloc();
        std::get_new_handler()();
    }
}
APART void *operator new(size_t size, const std::nothrow_t &) noexcept {
    try { return operator new(size); } catch (...) { return nullptr; }
}
void operator delete(void *block) noexcept { free(block); }
void operator delete(void *block, size_t) noexcept { free(block); }
#endif

static jmp_buf out;
static ucontext_t outer, inner;
static volatile long ticks, cut, seen;
static volatile size_t huge = HUGE_SIZE;

// Code that every complete backtrace includes.
#define OUTERMOST __attribute__((noinline, section("outermost")))
extern "C" char __start_outermost[], __stop_outermost[];

static bool reaches_outermost() {
    void *addresses[100];
    for (int i = backtrace(addresses, 100); i > 0; i--)
        if ((char *)addresses[i - 1] >= __start_outermost && (char *)addresses[i - 1] <= __stop_outermost) return true;
    return false;
}

struct Own { int value; };
static void throw_own() { throw Own{7}; }
static void jump() { longjmp(out, 1); }
static void look() { seen += reaches_outermost(); std::set_new_handler(nullptr); }
static void leave_for_ever() { std::set_new_handler(nullptr); swapcontext(&inner, &outer); }
static void on_tick(int) { ticks++; cut += !reaches_outermost(); }

static char stack_of_inner[256 << 10];

// Calls each function with an impossible or special size.
static const char *ask(int how) {
    static char text[40];
    try {
        void *block = how == 0 ? operator new(huge) : how == 1 ? operator new(huge, std::nothrow) : malloc(ASKING);
        sprintf(text, block ? "a block" : "nothing");
        if (how == 2) free(block);
    } catch (const std::bad_alloc &) {
        sprintf(text, "bad_alloc");
    } catch (const Own &own) {
        sprintf(text, "own %d", own.value);
    }
    return text;
}
static int how_inner;
static void ask_inside() { ask(how_inner); swapcontext(&inner, &outer); }

OUTERMOST static void all(FILE *file) {
    for (int how = 0; how < 3; how++) {
        for (int i = 0; i < 5; i++) {
            std::set_new_handler(nullptr);
            fprintf(file, "%d none: %s\n", how, ask(how));
            std::set_new_handler(throw_own);
            if (how == 0) fprintf(file, "%d throws: %s\n", how, ask(how));
            std::set_new_handler(jump);
            fprintf(file, "%d jumps: %s\n", how, setjmp(out) ? "out" : ask(how));
            std::set_new_handler(look);
            const char *found = ask(how);
            fprintf(file, "%d looks: %s, %ld\n", how, found, seen);
            std::set_new_handler(leave_for_ever);
            getcontext(&inner);
            inner.uc_stack.ss_sp = stack_of_inner;
            inner.uc_stack.ss_size = sizeof stack_of_inner;
            how_inner = how;
            makecontext(&inner, ask_inside, 0);
            swapcontext(&outer, &inner);
            fprintf(file, "%d left\n", how);
        }
    }
    std::set_new_handler(nullptr);
    pid_t child = vfork();
    if (child == 0) _exit(malloc(100) ? 3 : 4);
    int status = 0;
    waitpid(child, &status, 0);
    fprintf(file, "vfork: %d\n", WEXITSTATUS(status));
    signal(SIGPROF, on_tick);
    itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &timer, nullptr);
    while (ticks < 100) { char *volatile block = (char *)malloc(10); free(block); }
    timer = {};
    setitimer(ITIMER_PROF, &timer, nullptr);
    fprintf(file, "ticks: %ld cut\n", cut);
}

extern "C" APART void keep() {
    for (int i = 0; i < 100; i++) { char *volatile block = (char *)malloc(1000); *block = 1; }
}

int main(int, char **words) {
    void *first[1];
    backtrace(first, 1);  // loads its dependencies
    // Processes started by `env` are traced slightly later.
    if (getenv("LD_PRELOAD")) sleep(1);
    FILE *file = fopen(words[1], "w");
    all(file);
    keep();
    fclose(file);
    return 5;
}
