//! Kernel helpers, by name.

use super::{
    World, contexts,
    maps::{E2BIG, EINVAL, ENOENT, Take},
};
use crate::{
    Reason, Step,
    machine::{Answer, Arguments},
    memory::Memory,
};

/// Return values for redirects, and for failed ones (include/uapi/linux).
const XDP_ABORTED: u64 = 0;
const XDP_REDIRECT: u64 = 4;
const TC_ACT_SHOT: u64 = 2;
const TC_ACT_REDIRECT: u64 = 7;

pub(super) fn call(
    world: &mut World<'_>,
    memory: &mut Memory,
    name: &str,
    arguments: &Arguments,
) -> Step<Answer> {
    let get = |register| arguments.get(register);
    let value = |value: u64| Ok(Answer::Value(value));
    let World { maps, surroundings, .. } = world;
    match name {
        "bpf_map_lookup_elem" => maps.lookup(memory, get(1)?, get(2)?),
        "bpf_map_lookup_percpu_elem" if get(3)? == u64::from(surroundings.cpu) => {
            maps.lookup(memory, get(1)?, get(2)?)
        }
        "bpf_map_update_elem" => maps.update(memory, get(1)?, [get(2)?, get(3)?, get(4)?]),
        "bpf_map_delete_elem" => maps.delete(memory, get(1)?, get(2)?),
        "bpf_map_push_elem" => maps.push(memory, [get(1)?, get(2)?, get(3)?]),
        "bpf_map_pop_elem" => maps.take(memory, [get(1)?, get(2)?], Take::Pop),
        "bpf_map_peek_elem" => maps.take(memory, [get(1)?, get(2)?], Take::Peek),
        "bpf_for_each_map_elem" => maps.for_each(memory, get(1)?, [get(2)?, get(3)?, get(4)?]),

        "bpf_ktime_get_ns" | "bpf_ktime_get_boot_ns" | "bpf_ktime_get_coarse_ns" => {
            surroundings.now_ns += 1;
            value(surroundings.now_ns)
        }
        "bpf_get_smp_processor_id" => value(u64::from(surroundings.cpu)),
        "bpf_spin_lock"
        | "bpf_spin_unlock"
        | "bpf_set_hash_invalid"
        | "bpf_trace_printk"
        | "bpf_trace_vprintk" => Ok(Answer::Unknown),
        "bpf_strncmp" => strncmp(memory, [get(1)?, get(2)?, get(3)?]),
        "bpf_probe_read_kernel" => probe_read(memory, [get(1)?, get(2)?, get(3)?]),
        "bpf_tail_call" => {
            let (position, spec) = maps.find(get(2)?)?;
            let key = (get(3)? as u32).to_le_bytes();
            match maps.value(memory, position, &key)? {
                Some(_) => {
                    Err(format!("a tail call through {}, which is not followed", spec.name).into())
                }
                None => Ok(Answer::Unknown),
            }
        }

        // There is no reader, and hence no buffer.
        "bpf_perf_event_output" => {
            let (_, spec) = maps.find(get(2)?)?;
            let index = match get(3)? & u64::from(u32::MAX) {
                0xffff_ffff => u64::from(surroundings.cpu),
                index => index,
            };
            let is_beyond = spec.entries_max != 0 && index >= u64::from(spec.entries_max);
            value(if is_beyond { E2BIG } else { ENOENT } as u64)
        }
        "bpf_ringbuf_output" => value(if get(4)? > 3 { EINVAL as u64 } else { 0 }),
        "bpf_ringbuf_reserve" if get(3)? == 0 => value(memory.allocate(vec![0; get(2)? as usize])),
        "bpf_ringbuf_submit" | "bpf_ringbuf_discard" => Ok(Answer::Unknown),
        _ => on_packet(world, memory, name, arguments),
    }
}

/// Calls a packet helper.
fn on_packet(
    world: &mut World<'_>,
    memory: &mut Memory,
    name: &str,
    arguments: &Arguments,
) -> Step<Answer> {
    let get = |register| arguments.get(register);
    let value = |value: u64| Ok(Answer::Value(value));
    let World { maps, packet, .. } = world;
    match name {
        "bpf_csum_diff" => {
            contexts::csum_diff(memory, [get(1)?, get(2)?, get(3)?, get(4)?, get(5)?])
        }
        "bpf_redirect" if packet.is_xdp => {
            value(if get(2)? == 0 { XDP_REDIRECT } else { XDP_ABORTED })
        }
        "bpf_redirect" => value(if get(2)? & !1 == 0 { TC_ACT_REDIRECT } else { TC_ACT_SHOT }),
        "bpf_redirect_map" if packet.is_xdp && get(3)? < 4 => {
            let (position, _) = maps.find(get(1)?)?;
            let key = (get(2)? as u32).to_le_bytes();
            let is_there = maps.value(memory, position, &key)?.is_some();
            value(if is_there { XDP_REDIRECT } else { get(3)? })
        }

        "bpf_xdp_adjust_head" => contexts::adjust_head(packet, memory, get(2)?),
        "bpf_xdp_adjust_tail" => contexts::adjust_tail(packet, memory, get(2)?),
        "bpf_xdp_adjust_meta" => contexts::adjust_meta(packet, memory, get(2)?),
        "bpf_xdp_get_buff_len" => value(packet.len() as u64),
        "bpf_skb_load_bytes" | "bpf_xdp_load_bytes" => {
            contexts::load_bytes(packet, memory, [get(2)?, get(3)?, get(4)?])
        }
        "bpf_xdp_store_bytes" => contexts::store_bytes(packet, memory, [get(2)?, get(3)?, get(4)?]),
        "bpf_skb_store_bytes" => match get(5)? {
            0..=3 => contexts::store_bytes(packet, memory, [get(2)?, get(3)?, get(4)?]),
            _ => value(EINVAL as u64),
        },
        "bpf_l3_csum_replace" | "bpf_l4_csum_replace" => {
            let is_l4 = name == "bpf_l4_csum_replace";
            contexts::csum_replace(packet, memory, [get(2)?, get(3)?, get(4)?, get(5)?], is_l4)
        }
        // Packets are always linear here.
        "bpf_skb_pull_data" => {
            const ENOMEM: i64 = -12;
            value(if get(2)? as usize > packet.len() { ENOMEM as u64 } else { 0 })
        }
        // The key is valid, or the object would not work elsewhere either.
        "bpf_skb_set_tunnel_key" => value(0),
        _ => Err(refusal(name)),
    }
}

/// Why a helper is not supported.
fn refusal(name: &str) -> Reason {
    match name {
        "bpf_get_prandom_u32" => {
            "bpf_get_prandom_u32 gives another number each time, so that counts cannot be compared"
                .into()
        }
        "bpf_map_lookup_percpu_elem" | "bpf_redirect_map" | "bpf_ringbuf_reserve" => {
            format!("the helper {name} is not known to the interpreter with such arguments").into()
        }
        _ => format!("the helper {name} is not known to the interpreter").into(),
    }
}

/// `bpf_probe_read_kernel`: reads memory of the program. Rejects addresses that cannot be the kernel's, and zero-fills
/// (`copy_from_kernel_nofault_allowed`, arch/x86/mm/maccess.c, Linux 6.18).
fn probe_read(memory: &mut Memory, [to, len, from]: [u64; 3]) -> Step<Answer> {
    const ERANGE: i64 = -34;
    /// Start of the kernel's half of the address space, with five-level page tables.
    const KERNEL: u64 = 0xff00_0000_0000_0000;
    let len = (len & u64::from(u32::MAX)) as usize;
    let found = memory.bytes(from, len);
    if found.is_err() && from >= KERNEL {
        return Err("bpf_probe_read_kernel of kernel memory, which is unknown here".into());
    }
    let is_there = found.is_ok();
    memory.put(to, &found.unwrap_or_else(|_| vec![0; len]))?;
    Ok(Answer::Value(if is_there { 0 } else { ERANGE as u64 }))
}

fn strncmp(memory: &Memory, [first, len, second]: [u64; 3]) -> Step<Answer> {
    for at in 0..len {
        let [a, b] = [memory.read(first + at, 1)?, memory.read(second + at, 1)?];
        if a != b || a == 0 {
            return Ok(Answer::Value(a.wrapping_sub(b)));
        }
    }
    Ok(Answer::Value(0))
}
