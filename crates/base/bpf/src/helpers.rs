//! Names of the kernel's helper functions by number.
//!
//! The numbers are those of `enum bpf_func_id` (include/uapi/linux/bpf.h, Linux 6.18); no helper has
//! been added since 6.1, new functions are kfuncs. aya-obj has the enumeration, which cannot be made
//! from a number without `unsafe`. So its variants are listed here, and the compiler checks that they
//! exist, that they stand in their order, and that none is missing.

use aya_obj::generated::bpf_func_id;

/// Name of the helper function `number`, as C programs call it: `bpf_map_lookup_elem` for 1. `None`
/// for 0 and for numbers that Linux 6.18 does not know.
pub fn name(number: u32) -> Option<&'static str> {
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    NAMES.get(index).copied()
}

/// How many characters longer `BPF_FUNC_` is than `bpf_`.
const SURPLUS: usize = "BPF_FUNC_".len() - "bpf_".len();

/// `BPF_FUNC_x` → `bpf_x`.
const fn renamed<const LEN: usize>(variant: &str) -> [u8; LEN] {
    let mut name = [0; LEN];
    let mut index = 0;
    while index < LEN {
        let prefix = b"bpf_";
        let is_prefix = index < prefix.len();
        name[index] = if is_prefix { prefix[index] } else { variant.as_bytes()[index + SURPLUS] };
        index += 1;
    }
    name
}

/// Makes the table of names from the variants from 1 on. The index and `panic!`s are evaluated by the
/// compiler only.
macro_rules! names {
    ($($variant:ident)*) => {
        const NAMES: &[&str] = &[$({
            const VARIANT: &str = stringify!($variant);
            const BYTES: &[u8] = &renamed::<{ VARIANT.len() - SURPLUS }>(VARIANT);
            match str::from_utf8(BYTES) {
                Ok(name) => name,
                Err(_) => panic!("an identifier is UTF-8"),
            }
        }),*];

        const _: () = {
            let variants = [$(bpf_func_id::$variant),*];
            let mut index = 0;
            while index < variants.len() {
                assert!(variants[index] as usize == index + 1, "a helper is not in its place");
                index += 1;
            }
            let end = bpf_func_id::__BPF_FUNC_MAX_ID as usize;
            assert!(variants.len() + 1 == end, "the last helpers are missing");
        };
    };
}

names! {
    BPF_FUNC_map_lookup_elem BPF_FUNC_map_update_elem BPF_FUNC_map_delete_elem BPF_FUNC_probe_read
    BPF_FUNC_ktime_get_ns BPF_FUNC_trace_printk BPF_FUNC_get_prandom_u32
    BPF_FUNC_get_smp_processor_id BPF_FUNC_skb_store_bytes BPF_FUNC_l3_csum_replace
    BPF_FUNC_l4_csum_replace BPF_FUNC_tail_call BPF_FUNC_clone_redirect
    BPF_FUNC_get_current_pid_tgid BPF_FUNC_get_current_uid_gid BPF_FUNC_get_current_comm
    BPF_FUNC_get_cgroup_classid BPF_FUNC_skb_vlan_push BPF_FUNC_skb_vlan_pop
    BPF_FUNC_skb_get_tunnel_key BPF_FUNC_skb_set_tunnel_key BPF_FUNC_perf_event_read
    BPF_FUNC_redirect BPF_FUNC_get_route_realm BPF_FUNC_perf_event_output BPF_FUNC_skb_load_bytes
    BPF_FUNC_get_stackid BPF_FUNC_csum_diff BPF_FUNC_skb_get_tunnel_opt BPF_FUNC_skb_set_tunnel_opt
    BPF_FUNC_skb_change_proto BPF_FUNC_skb_change_type BPF_FUNC_skb_under_cgroup
    BPF_FUNC_get_hash_recalc BPF_FUNC_get_current_task BPF_FUNC_probe_write_user
    BPF_FUNC_current_task_under_cgroup BPF_FUNC_skb_change_tail BPF_FUNC_skb_pull_data
    BPF_FUNC_csum_update BPF_FUNC_set_hash_invalid BPF_FUNC_get_numa_node_id
    BPF_FUNC_skb_change_head BPF_FUNC_xdp_adjust_head BPF_FUNC_probe_read_str
    BPF_FUNC_get_socket_cookie BPF_FUNC_get_socket_uid BPF_FUNC_set_hash BPF_FUNC_setsockopt
    BPF_FUNC_skb_adjust_room BPF_FUNC_redirect_map BPF_FUNC_sk_redirect_map BPF_FUNC_sock_map_update
    BPF_FUNC_xdp_adjust_meta BPF_FUNC_perf_event_read_value BPF_FUNC_perf_prog_read_value
    BPF_FUNC_getsockopt BPF_FUNC_override_return BPF_FUNC_sock_ops_cb_flags_set
    BPF_FUNC_msg_redirect_map BPF_FUNC_msg_apply_bytes BPF_FUNC_msg_cork_bytes
    BPF_FUNC_msg_pull_data BPF_FUNC_bind BPF_FUNC_xdp_adjust_tail BPF_FUNC_skb_get_xfrm_state
    BPF_FUNC_get_stack BPF_FUNC_skb_load_bytes_relative BPF_FUNC_fib_lookup
    BPF_FUNC_sock_hash_update BPF_FUNC_msg_redirect_hash BPF_FUNC_sk_redirect_hash
    BPF_FUNC_lwt_push_encap BPF_FUNC_lwt_seg6_store_bytes BPF_FUNC_lwt_seg6_adjust_srh
    BPF_FUNC_lwt_seg6_action BPF_FUNC_rc_repeat BPF_FUNC_rc_keydown BPF_FUNC_skb_cgroup_id
    BPF_FUNC_get_current_cgroup_id BPF_FUNC_get_local_storage BPF_FUNC_sk_select_reuseport
    BPF_FUNC_skb_ancestor_cgroup_id BPF_FUNC_sk_lookup_tcp BPF_FUNC_sk_lookup_udp
    BPF_FUNC_sk_release BPF_FUNC_map_push_elem BPF_FUNC_map_pop_elem BPF_FUNC_map_peek_elem
    BPF_FUNC_msg_push_data BPF_FUNC_msg_pop_data BPF_FUNC_rc_pointer_rel BPF_FUNC_spin_lock
    BPF_FUNC_spin_unlock BPF_FUNC_sk_fullsock BPF_FUNC_tcp_sock BPF_FUNC_skb_ecn_set_ce
    BPF_FUNC_get_listener_sock BPF_FUNC_skc_lookup_tcp BPF_FUNC_tcp_check_syncookie
    BPF_FUNC_sysctl_get_name BPF_FUNC_sysctl_get_current_value BPF_FUNC_sysctl_get_new_value
    BPF_FUNC_sysctl_set_new_value BPF_FUNC_strtol BPF_FUNC_strtoul BPF_FUNC_sk_storage_get
    BPF_FUNC_sk_storage_delete BPF_FUNC_send_signal BPF_FUNC_tcp_gen_syncookie BPF_FUNC_skb_output
    BPF_FUNC_probe_read_user BPF_FUNC_probe_read_kernel BPF_FUNC_probe_read_user_str
    BPF_FUNC_probe_read_kernel_str BPF_FUNC_tcp_send_ack BPF_FUNC_send_signal_thread
    BPF_FUNC_jiffies64 BPF_FUNC_read_branch_records BPF_FUNC_get_ns_current_pid_tgid
    BPF_FUNC_xdp_output BPF_FUNC_get_netns_cookie BPF_FUNC_get_current_ancestor_cgroup_id
    BPF_FUNC_sk_assign BPF_FUNC_ktime_get_boot_ns BPF_FUNC_seq_printf BPF_FUNC_seq_write
    BPF_FUNC_sk_cgroup_id BPF_FUNC_sk_ancestor_cgroup_id BPF_FUNC_ringbuf_output
    BPF_FUNC_ringbuf_reserve BPF_FUNC_ringbuf_submit BPF_FUNC_ringbuf_discard BPF_FUNC_ringbuf_query
    BPF_FUNC_csum_level BPF_FUNC_skc_to_tcp6_sock BPF_FUNC_skc_to_tcp_sock
    BPF_FUNC_skc_to_tcp_timewait_sock BPF_FUNC_skc_to_tcp_request_sock BPF_FUNC_skc_to_udp6_sock
    BPF_FUNC_get_task_stack BPF_FUNC_load_hdr_opt BPF_FUNC_store_hdr_opt BPF_FUNC_reserve_hdr_opt
    BPF_FUNC_inode_storage_get BPF_FUNC_inode_storage_delete BPF_FUNC_d_path BPF_FUNC_copy_from_user
    BPF_FUNC_snprintf_btf BPF_FUNC_seq_printf_btf BPF_FUNC_skb_cgroup_classid
    BPF_FUNC_redirect_neigh BPF_FUNC_per_cpu_ptr BPF_FUNC_this_cpu_ptr BPF_FUNC_redirect_peer
    BPF_FUNC_task_storage_get BPF_FUNC_task_storage_delete BPF_FUNC_get_current_task_btf
    BPF_FUNC_bprm_opts_set BPF_FUNC_ktime_get_coarse_ns BPF_FUNC_ima_inode_hash
    BPF_FUNC_sock_from_file BPF_FUNC_check_mtu BPF_FUNC_for_each_map_elem BPF_FUNC_snprintf
    BPF_FUNC_sys_bpf BPF_FUNC_btf_find_by_name_kind BPF_FUNC_sys_close BPF_FUNC_timer_init
    BPF_FUNC_timer_set_callback BPF_FUNC_timer_start BPF_FUNC_timer_cancel BPF_FUNC_get_func_ip
    BPF_FUNC_get_attach_cookie BPF_FUNC_task_pt_regs BPF_FUNC_get_branch_snapshot
    BPF_FUNC_trace_vprintk BPF_FUNC_skc_to_unix_sock BPF_FUNC_kallsyms_lookup_name BPF_FUNC_find_vma
    BPF_FUNC_loop BPF_FUNC_strncmp BPF_FUNC_get_func_arg BPF_FUNC_get_func_ret
    BPF_FUNC_get_func_arg_cnt BPF_FUNC_get_retval BPF_FUNC_set_retval BPF_FUNC_xdp_get_buff_len
    BPF_FUNC_xdp_load_bytes BPF_FUNC_xdp_store_bytes BPF_FUNC_copy_from_user_task
    BPF_FUNC_skb_set_tstamp BPF_FUNC_ima_file_hash BPF_FUNC_kptr_xchg
    BPF_FUNC_map_lookup_percpu_elem BPF_FUNC_skc_to_mptcp_sock BPF_FUNC_dynptr_from_mem
    BPF_FUNC_ringbuf_reserve_dynptr BPF_FUNC_ringbuf_submit_dynptr BPF_FUNC_ringbuf_discard_dynptr
    BPF_FUNC_dynptr_read BPF_FUNC_dynptr_write BPF_FUNC_dynptr_data
    BPF_FUNC_tcp_raw_gen_syncookie_ipv4 BPF_FUNC_tcp_raw_gen_syncookie_ipv6
    BPF_FUNC_tcp_raw_check_syncookie_ipv4 BPF_FUNC_tcp_raw_check_syncookie_ipv6
    BPF_FUNC_ktime_get_tai_ns BPF_FUNC_user_ringbuf_drain BPF_FUNC_cgrp_storage_get
    BPF_FUNC_cgrp_storage_delete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_number() {
        let check = |number, expected| assert_eq!(name(number), expected, "{number}");
        check(0, None);
        check(1, Some("bpf_map_lookup_elem"));
        check(5, Some("bpf_ktime_get_ns"));
        check(12, Some("bpf_tail_call"));
        check(112, Some("bpf_probe_read_user"));
        check(181, Some("bpf_loop"));
        check(211, Some("bpf_cgrp_storage_delete"));
        check(212, None);
        check(u32::MAX, None);
    }
}
