/* What generated programs begin with: maps of all kinds, helpers, and a little state. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define NOINLINE static __attribute__((noinline))

struct ctx { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index; };

#define MAP(NAME, TYPE, ENTRIES)                                                                   \
    struct {                                                                                       \
        int (*type)[TYPE];                                                                         \
        u32 *key;                                                                                  \
        u64 *value;                                                                                \
        int (*max_entries)[ENTRIES];                                                               \
    } NAME SEC(".maps")

MAP(hash, 1, 8);
MAP(array, 2, 5);
MAP(percpu_hash, 5, 8);
MAP(percpu_array, 6, 5);
MAP(lru, 9, 64);
struct {
    int (*type)[22];
    u64 *value;
    int (*max_entries)[3];
} queue SEC(".maps");
struct {
    int (*type)[23];
    u64 *value;
    int (*max_entries)[3];
} stack SEC(".maps");

static void *(*const lookup)(void *, const void *) = (void *)1;
static long (*const update)(void *, const void *, const void *, u64) = (void *)2;
static long (*const delete)(void *, const void *) = (void *)3;
static u32 (*const cpu)(void) = (void *)8;
static long (*const csum_diff)(u32 *, u32, u32 *, u32, u32) = (void *)28;
static long (*const adjust_head)(struct ctx *, int) = (void *)44;
static long (*const adjust_meta)(struct ctx *, int) = (void *)54;
static long (*const adjust_tail)(struct ctx *, int) = (void *)65;
static long (*const push)(void *, const void *, u64) = (void *)87;
static long (*const pop)(void *, void *) = (void *)88;
static long (*const peek)(void *, void *) = (void *)89;
static long (*const probe_read)(void *, u32, const void *) = (void *)113;
static long (*const for_each)(void *, void *, void *, u64) = (void *)164;
static long (*const loop)(u32, void *, void *, u64) = (void *)181;

u64 global = 7;
const volatile u64 constant = 11;

struct state { u64 sum; u32 turns; };

static long on_element(void *map, u32 *key, u64 *value, struct state *state) {
    state->sum = state->sum * 3 + *value + *key;
    *value += state->turns;
    return (state->sum & 7) == 7;
}
static long on_turn(u32 index, struct state *state) {
    state->sum += index ^ (state->sum >> 5);
    return (state->sum & 15) == 3;
}
NOINLINE u32 byte(struct ctx *ctx, u32 offset) {
    u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;
    data += offset & 63;
    return data + 1 > end ? 256 : *data;
}
NOINLINE void set(struct ctx *ctx, u32 offset, u8 value) {
    u8 *data = (u8 *)(long)ctx->data, *end = (u8 *)(long)ctx->data_end;
    data += offset & 63;
    if (data + 1 <= end)
        *data = value;
}
