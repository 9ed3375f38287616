//! Allocates by what Rust programs use: vectors, texts, maps, boxes. The same each time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hint::black_box,
    sync::Arc,
};

#[repr(align(64))]
struct Aligned([u8; 320]);

#[inline(never)]
fn containers(n: usize) -> usize {
    let (mut vector, mut text, mut queue) = (Vec::new(), String::new(), VecDeque::new());
    for i in 0..n {
        vector.push(black_box(i as u32));
        text.push_str(&format!("{i:04} and more"));
        queue.push_back(black_box([i; 2]));
    }
    let table: HashMap<usize, [u64; 3]> = (0..n % 40).map(|i| (i, [i as u64; 3])).collect();
    let tree: BTreeMap<usize, u64> = (0..n).map(|i| (i * 7 % n, i as u64)).collect();
    vector.len() + text.len() + queue.len() + black_box(&table).len() + black_box(&tree).len()
}

#[inline(never)]
fn boxes(n: usize) -> usize {
    let boxes: Vec<Box<[usize; 9]>> = (0..n % 12).map(|i| Box::new([i; 9])).collect();
    let aligned = black_box(Box::new(Aligned([n as u8; 320])));
    let shared: Arc<str> = Arc::from("a text that is shared by two".repeat(1 + n % 3));
    let zeroed = black_box(vec![0_u8; 700 + n]);
    let mut shrunk: Vec<u64> = Vec::with_capacity(4 * n + 4);
    shrunk.extend(0..n as u64);
    shrunk.shrink_to_fit();
    std::mem::forget(black_box(vec![7_u8; 10 + n % 40]));
    boxes.len() + usize::from(aligned.0[7]) + Arc::clone(&shared).len() + zeroed.len() + shrunk.capacity()
}

fn main() {
    let sum: usize = (0..300).map(|i| containers(20 + i % 90) + boxes(i)).sum();
    println!("{sum}");
}
