// Uses every feature that clang supports for libbpf, without its headers.

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define CORE __attribute__((preserve_access_index))

typedef unsigned int u32;
typedef unsigned long long u64;

enum { HASH = 1, PERCPU_ARRAY = 6, RINGBUF = 27 };
enum { XDP_DROP = 1, XDP_PASS = 2 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const get_current_task)(void) = (void *)35;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const loop)(u32 turns, void *body, void *context, u64 flags) = (void *)181;

struct key {
    u32 source;
    u32 port;
};

struct {
    __uint(type, HASH);
    __uint(max_entries, 1024);
    __type(key, struct key);
    __type(value, u64);
} counts SEC(".maps");

struct {
    __uint(type, RINGBUF);
    __uint(max_entries, 4096);
} events SEC(".maps");

// The structure of kernels, without unused members.
struct thread_info {
    u32 status;
} CORE;

struct task {
    int state;
    struct thread_info info;
    int pid;
} CORE;

const volatile u32 weights[4] = {2, 3, 5, 7};
u32 limit = 10;
static u32 total;

static __attribute__((noinline)) int weigh(u32 port)
{
    u32 sum = 0;
#pragma clang loop unroll(disable)
    for (u32 bit = 0; bit < 4; bit++)
        sum += port >> bit & 1 ? weights[bit] : 0;
    return sum;
}

__attribute__((noinline)) int is_over(u32 weight)
{
    return weight + weigh(weight) > limit;
}

static int add(u32 index, u32 *sum)
{
    *sum += index;
    return 0;
}

SEC("xdp")
int count(void *context)
{
    struct key key = {.source = 1, .port = 2};
    u64 *found = map_lookup(&counts, &key);

    if (found && is_over(weigh(*found)))
        return XDP_DROP;
    total += 1;
    return XDP_PASS;
}

SEC("raw_tp/sched_switch")
int pid(void *context)
{
    struct task *task = (void *)get_current_task();
    u32 sum = 0, status;
    int pid;

    probe_read_kernel(&pid, sizeof(pid), &task->pid);
    probe_read_kernel(&status, sizeof(status), &task->info.status);
    loop(3, add, &sum, 0);
    return pid + status + sum;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
