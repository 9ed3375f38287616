//! A loop three functions deep, with a recursion.

use std::hint::black_box;
#[inline(never)]
fn leaf(n: u64) -> u64 { (0..n).fold(1, |sum, i| black_box(sum ^ i).wrapping_mul(31)) }
#[inline(never)]
fn twig(n: u64) -> u64 { black_box(leaf(n)) + (0..n).map(|i| black_box(i) * 3).sum::<u64>() }
#[inline(never)]
fn branch(depth: u64, n: u64) -> u64 {
    if depth == 0 { black_box(twig(n)) } else { black_box(branch(depth - 1, n)) + 1 }
}
fn main() { println!("{}", (0..1500000).map(|i| black_box(branch(black_box(20 + i % 3), 1000))).sum::<u64>()); }
