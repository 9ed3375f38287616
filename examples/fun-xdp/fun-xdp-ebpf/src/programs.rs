//! Five versions of one packet filter. Each lets every packet pass, and puts the class of its source
//! address into a queue for user space.

use aya_ebpf::{
    bindings::xdp_action::{XDP_ABORTED, XDP_PASS},
    btf_maps::Queue,
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use fun_xdp_common::SourceAddr;

/// Classes on their way to user space. Those that do not fit are lost. Described by BTF, so that
/// tools on libbpf (bpftool, veristat) load the object too.
#[btf_map]
static SOURCE_ADDR_QUEUE: Queue<SourceAddr, 1024> = Queue::new();

/// Version 0: looks at the address, and no more. Without a log that leaves the check of the headers,
/// which all versions have in common.
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

/// An Ethernet header: two addresses of six bytes, then the type of what follows (IEEE 802.3).
const ETHERNET_BYTES: usize = 14;
/// The type for IPv4, as it lies in the packet.
const IPV4: [u8; 2] = [0x08, 0x00];
/// An IPv4 header without options; the source address is in bytes 12 to 15 (RFC 791).
const IPV4_BYTES: usize = 20;

/// The packet ends before its headers do.
struct OutOfBounds;

/// The source address of an IPv4 packet in host order. Other packets have none; one in a VLAN is
/// another packet.
#[inline(always)]
fn source_address(ctx: &XdpContext) -> Result<Option<u32>, OutOfBounds> {
    let ethernet: &[u8; ETHERNET_BYTES] = header(ctx, 0)?;
    if [ethernet[12], ethernet[13]] != IPV4 {
        return Ok(None);
    }
    let ipv4: &[u8; IPV4_BYTES] = header(ctx, ETHERNET_BYTES)?;
    Ok(Some(u32::from_be_bytes([ipv4[12], ipv4[13], ipv4[14], ipv4[15]])))
}

/// `N` bytes of the packet, if it is that long.
#[inline(always)]
fn header<const N: usize>(ctx: &XdpContext, offset: usize) -> Result<&[u8; N], OutOfBounds> {
    let start = ctx.data() + offset;
    // The verifier looks for this comparison, in this form.
    if start + N > ctx.data_end() {
        return Err(OutOfBounds);
    }
    // SAFETY: these bytes lie within the packet, nobody writes to them while the program runs, and
    // bytes are aligned anywhere.
    Ok(unsafe { &*(start as *const [u8; N]) })
}

/// The verifier proves that this is never reached; the compiler wants it all the same.
#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
