/* Programs with maps, clocks and random numbers that differ on every run. */
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define MAP(NAME, TYPE, VALUE, ENTRIES)                                                            \
    struct {                                                                                       \
        int (*type)[TYPE];                                                                         \
        u32 *key;                                                                                  \
        VALUE *value;                                                                              \
        int (*max_entries)[ENTRIES];                                                               \
    } NAME SEC(".maps")

enum { HASH = 1, ARRAY = 2, PERCPU_HASH = 5, LRU_HASH = 9, CLOCK_MONOTONIC = 1 };

static void *(*const lookup)(void *, const void *) = (void *)1;
static long (*const update)(void *, const void *, const void *, u64) = (void *)2;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u32 (*const get_prandom_u32)(void) = (void *)7;
static long (*const spin_lock)(void *) = (void *)93;
static long (*const spin_unlock)(void *) = (void *)94;
static long (*const timer_init)(void *, void *, u64) = (void *)169;
static long (*const timer_set_callback)(void *, void *) = (void *)170;
static long (*const timer_start)(void *, u64, u64) = (void *)171;
static void *(*const kptr_xchg)(void *, void *) = (void *)194;

char gpl[] SEC("license") = "GPL";

#define WORK(TURNS, NUMBER)                                                                        \
    for (int turn = 0; turn < (TURNS); turn++) {                                                   \
        (NUMBER) = (NUMBER) * 31 + turn;                                                           \
        asm volatile("" : "+r"(NUMBER));                                                           \
    }

#if defined(TIMER)
struct bpf_timer {
    u64 opaque[2];
} __attribute__((aligned(8)));
struct timed {
    u64 unused;
    struct bpf_timer timer;
};
MAP(timers, ARRAY, struct timed, ENTRIES);

static int expired(void *map, int *key, struct timed *value) { return 0; }

/* 0 if no previous run has left its timer. */
SEC("tc") int program(void *ctx)
{
    u32 key = 0;
    struct timed *value = lookup(&timers, &key);
    if (!value)
        return 9;
    if (timer_init(&value->timer, &timers, CLOCK_MONOTONIC))
        return 3;
    timer_set_callback(&value->timer, expired);
    timer_start(&value->timer, 3600000000000ULL, 0);
    return 0;
}
#elif defined(KPTR)
struct wingbeat_node {
    u64 number;
};
extern void *bpf_obj_new_impl(u64, void *) SEC(".ksyms");
extern void bpf_obj_drop_impl(void *, void *) SEC(".ksyms");
struct held {
    struct wingbeat_node __attribute__((btf_type_tag("kptr"))) *node;
};
MAP(nodes, ARRAY, struct held, 1);

/* 0 if no previous run has left a node. */
SEC("tc") int program(void *ctx)
{
    u32 key = 0;
    struct held *value = lookup(&nodes, &key);
    struct wingbeat_node *node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct wingbeat_node *)0, 0), 0);
    if (!node)
        return 9;
    if (!value) {
        bpf_obj_drop_impl(node, 0);
        return 8;
    }
    node = kptr_xchg(&value->node, node);
    if (!node)
        return 0;
    bpf_obj_drop_impl(node, 0);
    return 3;
}
#elif defined(LIST) || defined(TREE)
struct bpf_spin_lock {
    u32 opaque;
};
#if defined(LIST)
struct bpf_list_head {
    u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_list_node {
    u64 opaque[3];
} __attribute__((aligned(8)));
#define ROOT struct bpf_list_head
#define LINK struct bpf_list_node
extern int bpf_list_push_front_impl(ROOT *, LINK *, void *, u64) SEC(".ksyms");
extern LINK *bpf_list_pop_front(ROOT *) SEC(".ksyms");
#else
struct bpf_rb_root {
    u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_rb_node {
    u64 opaque[4];
} __attribute__((aligned(8)));
#define ROOT struct bpf_rb_root
#define LINK struct bpf_rb_node
typedef _Bool less_t(LINK *, const LINK *);
extern int bpf_rbtree_add_impl(ROOT *, LINK *, less_t *, void *, u64) SEC(".ksyms");
extern LINK *bpf_rbtree_first(ROOT *) SEC(".ksyms");
#endif
extern void *bpf_obj_new_impl(u64, void *) SEC(".ksyms");
extern void bpf_obj_drop_impl(void *, void *) SEC(".ksyms");
struct wingbeat_node {
    LINK link;
    u64 number;
};
struct owner {
    struct bpf_spin_lock lock;
    ROOT root __attribute__((btf_decl_tag("contains:wingbeat_node:link")));
};
MAP(owners, ARRAY, struct owner, ENTRIES);

#if defined(LIST)
static _Bool take(ROOT *root, struct wingbeat_node **taken)
{
    *taken = (void *)bpf_list_pop_front(root);
    return *taken;
}
#define PUT(root, node) bpf_list_push_front_impl(root, &(node)->link, 0, 0)
#else
static _Bool is_less(LINK *first, const LINK *second) { return 0; }
static _Bool take(ROOT *root, struct wingbeat_node **taken)
{
    *taken = 0;
    return bpf_rbtree_first(root);
}
#define PUT(root, node) bpf_rbtree_add_impl(root, &(node)->link, is_less, 0, 0)
#endif

/* 0 if no previous run has left a node. */
SEC("tc") int program(void *ctx)
{
    u32 key = 1;
    struct owner *value = lookup(&owners, &key);
    struct wingbeat_node *taken, *node;
    if (!value)
        return 8;
    node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct wingbeat_node *)0, 0), 0);
    if (!node)
        return 9;
    spin_lock(&value->lock);
    _Bool was_there = take(&value->root, &taken);
    PUT(&value->root, node);
    spin_unlock(&value->lock);
    if (taken)
        bpf_obj_drop_impl(taken, 0);
    return was_there ? 3 : 0;
}
#elif defined(INSERTING)
/* A new entry on every run. */
MAP(flows, KIND, u64, ENTRIES);
u32 next;

SEC("tc") int program(void *ctx)
{
    u32 key = next++;
    u64 value = key;
    return update(&flows, &key, &value, 0) ? 2 : 0;
}
#elif defined(READING)
/* One is only read, the other only written. */
MAP(rules, HASH, u64, ENTRIES);
MAP(seen, HASH, u64, ENTRIES);

SEC("tc") int program(void *ctx)
{
    u32 key = 1;
    u64 one = 1;
    u64 *rule = lookup(&rules, &key);
    long refused = update(&seen, &key, &one, 1 /* BPF_NOEXIST */);
    return rule && *rule == 7 ? (refused ? 3 : 0) : 2;
}
#elif defined(RANDOM)
SEC("tc") int program(void *ctx)
{
    u64 number = get_prandom_u32();
    if (number & 1)
        WORK(MORE + 100, number);
    return number == 0;
}
#elif defined(SAMPLING)
/* One run in SAMPLING takes the long path. */
SEC("tc") int program(void *ctx)
{
    u64 number = get_prandom_u32();
    if (number % SAMPLING == 0)
        WORK(100, number);
    return number == 0;
}
#elif defined(CLOCK)
/* Works once a millisecond. */
u64 last_ns;

SEC("tc") int program(void *ctx)
{
    u64 now_ns = ktime_get_ns();
    u64 number = now_ns;
    if (now_ns - last_ns > 1000000) {
        last_ns = now_ns;
        WORK(100, number);
    }
    return number == 0;
}
#elif defined(SECONDS)
/* Works in every other second. */
SEC("tc") int program(void *ctx)
{
    u64 number = ktime_get_ns();
    if (number / 1000000000 % 2)
        WORK(100, number);
    return number == 0;
}
#elif defined(STAMPING)
/* Reads a clock, and ignores the result. */
u64 stamp_ns;

SEC("tc") int program(void *ctx)
{
    u64 number = stamp_ns = ktime_get_ns();
    WORK(MORE + 100, number);
    return number == 0;
}
#endif
