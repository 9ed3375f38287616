/* Programs that change their packet, metadata or maps: a run on the output of an earlier one takes
 * another, shorter path. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index; };
struct __sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};
enum { XDP_DROP = 1, XDP_PASS, XDP_TX };
enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2, TC_ACT_PIPE = 3 };

static long (*xdp_adjust_head)(struct xdp_md *, int) = (void *)44;
static long (*xdp_adjust_meta)(struct xdp_md *, int) = (void *)54;
static long (*xdp_adjust_tail)(struct xdp_md *, int) = (void *)65;
static u64 (*ktime_get_ns)(void) = (void *)5;
static long (*skb_vlan_push)(struct __sk_buff *, u32, u32) = (void *)18;
static long (*skb_change_tail)(struct __sk_buff *, u32, u64) = (void *)38;

#define BYTES(ctx) u8 *data = (void *)(long)(ctx)->data, *end = (void *)(long)(ctx)->data_end
#define TTL 22
#define PROTOCOL 23
#define ADDRESS 30

/* The work for a packet, some hundred nanoseconds. */
static __attribute__((always_inline)) u32 work(u32 hash) {
    for (int turn = 0; turn < 300; turn++) {
        hash = hash * 31 + turn;
        asm volatile("" : "+r"(hash));
    }
    return hash | 1;
}

SEC("xdp") int leaves(struct xdp_md *ctx) {
    BYTES(ctx);
    if (data + 42 > end || !work(data[ADDRESS])) return XDP_DROP;
    return XDP_TX;
}

SEC("xdp") int rewrites(struct xdp_md *ctx) {
    BYTES(ctx);
    if (data + 42 > end || data[TTL] <= 1) return XDP_DROP;
    data[TTL]--;
    return work(data[ADDRESS]) ? XDP_TX : XDP_DROP;
}

/* Removes the outer header, if there is one, like a server behind a load balancer. */
SEC("xdp") int decapsulates(struct xdp_md *ctx) {
    BYTES(ctx);
    if (data + 42 > end || data[PROTOCOL] != 17 || !work(data[ADDRESS])) return XDP_PASS;
    return xdp_adjust_head(ctx, 20) ? XDP_DROP : XDP_TX;
}

/* Adds an outer header like a load balancer, until there is no room in front. */
SEC("xdp") int encapsulates(struct xdp_md *ctx) {
    if (xdp_adjust_head(ctx, -20)) return XDP_DROP;
    BYTES(ctx);
    if (data + 42 > end || !work(data[ADDRESS])) return XDP_DROP;
    for (int at = 0; at < 20; at++) data[at] = at;
    return XDP_TX;
}

SEC("xdp") int marks(struct xdp_md *ctx) {
    if (xdp_adjust_meta(ctx, -8)) return XDP_DROP;
    u8 *meta = (void *)(long)ctx->data_meta, *data = (void *)(long)ctx->data;
    if (meta + 8 > data) return XDP_DROP;
    *(u32 *)meta = work(meta[3]);
    return XDP_PASS;
}

SEC("xdp") int truncates(struct xdp_md *ctx) {
    if (xdp_adjust_tail(ctx, -24)) return XDP_DROP;
    return work(ctx->rx_queue_index) ? XDP_TX : XDP_DROP;
}

SEC("tc") int tc_rewrites(struct __sk_buff *ctx) {
    BYTES(ctx);
    if (data + 42 > end || data[TTL] <= 1) return TC_ACT_SHOT;
    data[TTL]--;
    return work(data[ADDRESS]) ? TC_ACT_OK : TC_ACT_SHOT;
}

/* Does not affect the packet. */
SEC("tc") int tc_marks(struct __sk_buff *ctx) {
    if (ctx->mark) return TC_ACT_SHOT;
    ctx->mark = work(ctx->len);
    return TC_ACT_OK;
}

/* A budget per packet, stored only in the context. */
SEC("tc") int tc_counts(struct __sk_buff *ctx) {
    if (ctx->cb[2]++ > 3) return TC_ACT_SHOT;
    return work(ctx->len) ? TC_ACT_OK : TC_ACT_SHOT;
}

SEC("cgroup_skb/egress") int cgroup_marks(struct __sk_buff *ctx) {
    if (ctx->mark) return 0;
    ctx->mark = 1;
    return work(ctx->len) ? 1 : 0;
}

/* The first tag is stored outside of the packet, the second one inside. */
SEC("tc") int tc_tags(struct __sk_buff *ctx) {
    if (ctx->vlan_present || !work(ctx->len)) return TC_ACT_SHOT;
    return skb_vlan_push(ctx, 0x81, 5) ? TC_ACT_PIPE : TC_ACT_OK;
}

SEC("tc") int tc_truncates(struct __sk_buff *ctx) {
    if (ctx->len < 64 || !work(ctx->len)) return TC_ACT_SHOT;
    return skb_change_tail(ctx, 50, 0) ? TC_ACT_PIPE : TC_ACT_OK;
}

/* A question and its answer share the context. */
SEC("syscall") int answers(u64 *ctx) {
    if (ctx[0]) return 1;
    ctx[0] = work(7);
    return 0;
}

/* Keys that the kernel empties before each run it repeats. */
struct flow_keys { unsigned short nhoff, thoff; };
struct flow { u8 before[144]; struct flow_keys *keys; };
SEC("flow_dissector") int dissects(struct flow *ctx) {
    if (ctx->keys->thoff > 100) return 2;
    ctx->keys->thoff += 200;
    return work(ctx->keys->nhoff) ? 0 : 2;
}

/* A budget that the first runs use up. */
struct {
    int (*type)[2];
    u32 *key;
    u64 *value;
    int (*max_entries)[1];
} budget SEC(".maps");
static void *(*map_lookup_elem)(void *, const void *) = (void *)1;

SEC("xdp") int limits(struct xdp_md *ctx) {
    u32 key = 0;
    u64 *used = map_lookup_elem(&budget, &key);
    if (!used || *used >= 50) return XDP_DROP;
    *used += 1;
    return work(ctx->rx_queue_index) ? XDP_PASS : XDP_DROP;
}

/* Ends its work within a sample, after more runs than are looked at one by one. */
u64 tired;
SEC("xdp") int tires(struct xdp_md *ctx) {
    if (tired >= 4200) return XDP_PASS;
    tired++;
    return work(ctx->rx_queue_index) ? XDP_PASS : XDP_DROP;
}

/* A bucket of 100 tokens, refilled every microsecond: calls of their own are slower than that, repeated runs
 * are not. */
u64 refilled_ns, tokens;
SEC("tc") int drops(struct __sk_buff *ctx) {
    u64 now_ns = ktime_get_ns();
    tokens += (now_ns - refilled_ns) / 1000;
    refilled_ns = now_ns;
    if (tokens > 100) tokens = 100;
    if (!tokens) return TC_ACT_SHOT;
    tokens--;
    return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
