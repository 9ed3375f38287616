//! eBPF programs on the real kernel: `wingbeat bench`, `annotate`, `live` and `top`.

mod bench;
mod live;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
