//! Two Rust functions, on the main thread and on another: tests that stacks of a plain `cargo build --release` are
//! complete.

#[inline(never)]
fn leaf(n: u64) -> u64 {
    (0..n).fold(1, |a, b| std::hint::black_box(a ^ b))
}

#[inline(never)]
fn middle(n: u64) -> u64 {
    leaf(n) + 1
}

fn main() {
    let begun = std::time::Instant::now();
    let mut sum = 0_u64;
    while begun.elapsed().as_millis() < 800 {
        sum = sum.wrapping_add(middle(10_000));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| println!("{}", middle(100_000_000)));
    });
    println!("{sum}");
}
