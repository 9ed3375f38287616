//! Five versions of one packet filter. Each lets every packet pass, and puts the class of its source
//! address into a queue for user space.

use aya_ebpf::{
    bindings::xdp_action::{XDP_ABORTED, XDP_PASS},
    btf_maps::Queue,
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use fun_xdp_common::SourceAddr;

/// Classes on their way to user space; dropped when full. Has BTF, so that tools based on libbpf
/// (bpftool, veristat) can load the object too.
#[btf_map]
static SOURCE_ADDR_QUEUE: Queue<SourceAddr, 1024> = Queue::new();

/// Version 0: only reads the address. Without logging this leaves the header checks, which all
/// versions share.
#[xdp]
pub fn fun_xdp_v0(ctx: XdpContext) -> u32 {
    filter(&ctx, |_| None)
}

/// Version 1: Fizz.
#[xdp]
pub fn fun_xdp_v1(ctx: XdpContext) -> u32 {
    filter(&ctx, SourceAddr::new_v1)
}

/// Version 2: FizzBuzz.
#[xdp]
pub fn fun_xdp_v2(ctx: XdpContext) -> u32 {
    filter(&ctx, SourceAddr::new_v2)
}

/// Version 3: FizzBuzzFibonacci, computed. The verifier accepts such a loop since Linux 5.3.
#[xdp]
pub fn fun_xdp_v3(ctx: XdpContext) -> u32 {
    filter(&ctx, SourceAddr::new_v3)
}

/// Version 4: FizzBuzzFibonacci, looked up.
#[xdp]
pub fn fun_xdp_v4(ctx: XdpContext) -> u32 {
    filter(&ctx, SourceAddr::new_v4)
}

#[inline(always)]
fn filter(ctx: &XdpContext, classify: impl Fn(u32) -> Option<SourceAddr>) -> u32 {
    let address = match source_address(ctx) {
        Ok(Some(address)) => address,
        Ok(None) => return XDP_PASS,
        Err(OutOfBounds) => return XDP_ABORTED,
    };
    #[cfg(feature = "log")]
    aya_log_ebpf::info!(ctx, "source address {:i}", address);
    if let Some(class) = classify(address)
        && let Err(_error) = SOURCE_ADDR_QUEUE.push(class, 0)
    {
        #[cfg(feature = "log")]
        aya_log_ebpf::error!(ctx, "class of {:i} lost: the push says {}", address, _error);
    }
    XDP_PASS
}

/// Length of an Ethernet header: two addresses of six bytes, then the EtherType (IEEE 802.3).
const ETHERNET_BYTES: usize = 14;
/// The EtherType of IPv4, in packet order.
const IPV4: [u8; 2] = [0x08, 0x00];
/// Length of an IPv4 header without options; the source address is in bytes 12 to 15 (RFC 791).
const IPV4_BYTES: usize = 20;

/// The packet ends before its headers do.
struct OutOfBounds;

/// Source address of an IPv4 packet in host order; `None` for other packets, including VLAN-tagged
/// ones.
#[inline(always)]
fn source_address(ctx: &XdpContext) -> Result<Option<u32>, OutOfBounds> {
    let ethernet: &[u8; ETHERNET_BYTES] = header(ctx, 0)?;
    if [ethernet[12], ethernet[13]] != IPV4 {
        return Ok(None);
    }
    let ipv4: &[u8; IPV4_BYTES] = header(ctx, ETHERNET_BYTES)?;
    Ok(Some(u32::from_be_bytes([ipv4[12], ipv4[13], ipv4[14], ipv4[15]])))
}

/// `N` bytes of the packet, if it is long enough.
#[inline(always)]
fn header<const N: usize>(ctx: &XdpContext, offset: usize) -> Result<&[u8; N], OutOfBounds> {
    let start = ctx.data() + offset;
    // The verifier looks for this comparison, in this form.
    if start + N > ctx.data_end() {
        return Err(OutOfBounds);
    }
    // SAFETY: these bytes lie within the packet, nothing writes to them while the program runs, and
    // bytes need no alignment.
    Ok(unsafe { &*(start as *const [u8; N]) })
}

/// Unreachable, as the verifier proves; but the compiler requires it.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
