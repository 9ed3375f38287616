//! Collapsed stacks.

use wingbeat_profiler::export::Format;

use crate::golden;
use crate::small::{export, small};

/// Stacks and counts, by the rule of the format: the count follows the last space.
pub(crate) fn parse(bytes: &[u8]) -> Vec<(String, u64)> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines()
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            (stack.to_owned(), count.parse().unwrap())
        })
        .collect()
}

#[test]
fn matches_the_golden_file() {
    let text = String::from_utf8(export(&small(), Format::Folded)).unwrap();
    golden::check("small.folded", &text);
}

#[test]
fn stacks_of_equal_text_are_one_line() {
    let mut profile = small();
    // Equal functions at another address.
    let mut frame = profile.frames[2].clone();
    frame.address += 4;
    profile.frames.push(frame);
    profile.stacks[1].frames = vec![4, profile.frames.len() as u32 - 1, 1, 0];
    profile.stacks[2].frames = vec![4, 2, 1, 0];
    let lines = parse(&export(&profile, Format::Folded));
    let next = lines.iter().filter(|(stack, _)| stack.ends_with("Iterator>::next"));
    assert_eq!(next.map(|(_, count)| *count).collect::<Vec<_>>(), [3]);
}
