//! eBPF programs on the real kernel: `wingbeat bench`, `annotate`, `live` and `top`.

mod bench;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../bpf-loader/tests/spec/support/btf.rs"]
mod btf;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../../../bpf-loader/tests/spec/support/elf.rs"]
mod elf;
mod live;
#[path = "../common/object.rs"]
mod object;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
