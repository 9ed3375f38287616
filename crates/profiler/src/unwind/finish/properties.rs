//! [`finish`] with arbitrary rules and memory: a file may be damaged or hostile.

use proptest::prelude::*;
use wingbeat_profiler_abi::unwind::{FP, SP};

use super::*;

/// Code and stack addresses overlap, so that the words read lead to further rules.
const START: u64 = 0x1000;
const WORDS: u64 = 16;

fn words() -> impl Strategy<Value = i16> {
    prop_oneof![8 => -8..16_i16, 1 => any::<i16>()]
}

fn rule() -> impl Strategy<Value = Rule> {
    let offset = prop_oneof![8 => (-8..16_i32).prop_map(|words| words * 8), 1 => any::<i32>()];
    let register = prop_oneof![Just(SP), Just(FP)];
    let frame = (register, offset, words(), prop::option::of(words())).prop_map(
        |(register, offset, return_words, fp_words)| {
            let rule = Rule { return_words, ..Rule::framed(register, offset) };
            fp_words.map_or(rule, |words| rule.saving_fp(words))
        },
    );
    let others = [Rule::END, Rule::UNSUPPORTED, Rule::GAP, Rule::SIGNAL];
    prop_oneof![8 => frame, 3 => prop::sample::select(others.to_vec())]
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..WORDS).prop_map(|word| START + word * 8), 1 => Just(0), 1 => any::<u64>()]
}

fn start() -> impl Strategy<Value = Frame> {
    (word(), word(), prop::option::of(word()), any::<bool>())
        .prop_map(|(ip, sp, fp, is_call)| Frame::new(ip, sp, fp, is_call))
}

proptest! {
    #[test]
    fn ends(
        start in start(),
        words in prop::collection::vec(word(), 0..WORDS as usize),
        rules in prop::collection::vec(prop::option::of(rule()), 1..8),
    ) {
        let memory = Memory { start: START, words };
        let mut asked = 0;
        let mut frames = Vec::new();
        let completeness = finish(start, &memory, &mut frames, |address| {
            asked += 1;
            rules[(address / 8 % rules.len() as u64) as usize]
        });
        prop_assert!(asked <= USER_FRAMES_MAX);
        prop_assert!(frames.len() <= USER_FRAMES_MAX);
        if completeness == Completeness::Truncated {
            prop_assert_eq!(frames.len(), USER_FRAMES_MAX);
        }
    }
}
