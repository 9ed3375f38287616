/* Prelude of generated programs: maps of all kinds, helpers, and a little state. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define NOINLINE static __attribute__((noinline))

#ifdef TC
#define ENTRY "tc"
struct ctx {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};
#else
#define ENTRY "xdp"
struct ctx { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index; };
#endif

#define MAP(NAME, TYPE, ENTRIES)                                                                   \
    struct {                                                                                       \
        int (*type)[TYPE];                                                                         \
        u32 *key;                                                                                  \
        u64 *value;                                                                                \
        int (*max_entries)[ENTRIES];                                                               \
    } NAME SEC(".maps")

/* The kernel takes a while to destroy maps of maps. */
#ifdef OUTER
#define LOOKUP_OUTER(key) lookup(&outer, key)
struct array {
    int (*type)[2];
    u32 *key;
    u64 *value;
    int (*max_entries)[5];
} first SEC(".maps"), second SEC(".maps");
struct {
    int (*type)[12];
    u32 *key;
    int (*max_entries)[4];
    struct array *values[];
} outer SEC(".maps") = { .values = { [0] = &first, [2] = &second } };
#else
#define LOOKUP_OUTER(key) (void *)0
#endif

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
#ifdef TC
static long (*const store_bytes)(struct ctx *, u32, const void *, u32, u64) = (void *)9;
static long (*const l3_replace)(struct ctx *, u32, u64, u64, u64) = (void *)10;
static long (*const l4_replace)(struct ctx *, u32, u64, u64, u64) = (void *)11;
static long (*const load_bytes)(struct ctx *, u32, void *, u32) = (void *)26;
static long (*const pull_data)(struct ctx *, u32) = (void *)39;
NOINLINE long adjust_head(struct ctx *ctx, int by) {
    u64 value = by;
    long result = store_bytes(ctx, by & 63, &value, 5, by & 1) * 3 + pull_data(ctx, by & 127);
    return result * 5 + load_bytes(ctx, by & 31, &value, 8) + value;
}
NOINLINE long adjust_meta(struct ctx *ctx, int by) {
    long result = l3_replace(ctx, by & 63, by & 0xffff, 77, 2);
    return result * 3 + l3_replace(ctx, 16, 0, by * 7919, 0) + ctx->len + ctx->protocol + ctx->mark;
}
NOINLINE long adjust_tail(struct ctx *ctx, int by) {
    long result = l4_replace(ctx, by & 62, (u32)by * 77, 99, 4 | (by & 1 ? 0x20 : 0x10));
    return result * 3 + l4_replace(ctx, 20, 5, by & 0xffff, 2 | (by & 3) << 5) + ctx->pkt_type;
}
#else
static long (*const adjust_head)(struct ctx *, int) = (void *)44;
static long (*const adjust_meta)(struct ctx *, int) = (void *)54;
static long (*const adjust_tail)(struct ctx *, int) = (void *)65;
#endif
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
