//! Allocates by what Rust programs use: vectors, texts, maps, boxes. The same each time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hint::black_box,
    sync::Arc,
};

#[repr(align(64))]
struct Aligned([u8; 320]);

#[inline(never)]
fn in_vector(n: usize) -> usize {
    let mut vector = Vec::new();
    for i in 0..n {
        vector.push(black_box(i as u32));
    }
    vector.len()
}

#[inline(never)]
fn in_text(n: usize) -> usize {
    let mut text = String::new();
    for i in 0..n {
        text.push_str(&format!("{i:04} and more"));
    }
    text.len()
}

#[inline(never)]
fn in_table(n: usize) -> usize {
    let table: HashMap<usize, [u64; 3]> = (0..n).map(|i| (i, [i as u64; 3])).collect();
    black_box(&table).len()
}

#[inline(never)]
fn in_tree(n: usize) -> usize {
    let tree: BTreeMap<usize, u64> = (0..n).map(|i| (i * 7 % n, i as u64)).collect();
    black_box(&tree).len()
}

#[inline(never)]
fn in_queue(n: usize) -> usize {
    let mut queue = VecDeque::new();
    for i in 0..n {
        queue.push_back(black_box([i; 2]));
    }
    queue.len()
}

#[inline(never)]
fn zeroed(n: usize) -> usize {
    black_box(vec![0_u8; n]).len()
}

#[inline(never)]
fn boxed(n: usize) -> usize {
    let boxes: Vec<Box<[usize; 9]>> = (0..n).map(|i| Box::new([i; 9])).collect();
    black_box(boxes).len()
}

#[inline(never)]
fn aligned(n: usize) -> u8 {
    black_box(Box::new(Aligned([n as u8; 320]))).0[7]
}

#[inline(never)]
fn shared(n: usize) -> usize {
    let shared: Arc<str> = Arc::from("a text that is shared by two".repeat(1 + n % 3));
    black_box(Arc::clone(&shared)).len()
}

#[inline(never)]
fn shrunk(n: usize) -> usize {
    let mut vector: Vec<u64> = Vec::with_capacity(4 * n + 4);
    vector.extend(0..n as u64);
    vector.shrink_to_fit();
    black_box(vector).capacity()
}

#[inline(never)]
fn forgotten(n: usize) {
    std::mem::forget(black_box(vec![7_u8; 10 + n % 40]));
}

pub fn main() {
    let mut sum = 0;
    for i in 0..300 {
        sum +=
            in_vector(90 + i) + in_text(10 + i % 30) + in_table(25 + i % 40) + in_tree(20 + i % 50);
        sum += in_queue(i % 70)
            + zeroed(700 + i)
            + boxed(i % 12)
            + usize::from(aligned(i))
            + shared(i)
            + shrunk(i % 33);
        forgotten(i);
    }
    // The buffer of stdout is freed after `main`, where dhat-rs has ended.
    eprintln!("{sum}");
}
