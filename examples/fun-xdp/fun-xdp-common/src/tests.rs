//! Results of each version of the classifier, and agreement between versions.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use crate::SourceAddr::{self, *};

type Version = fn(u32) -> Option<SourceAddr>;

const VERSIONS: [Version; 4] =
    [SourceAddr::new_v1, SourceAddr::new_v2, SourceAddr::new_v3, SourceAddr::new_v4];

/// All Fibonacci numbers that fit in an octet, computed by hand.
const FIBONACCI: [u8; 13] = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233];

fn answers(address: u32) -> [Option<SourceAddr>; 4] {
    VERSIONS.map(|version| version(address))
}

fn last_octet(address: u32) -> u8 {
    Ipv4Addr::from(address).octets()[3]
}

#[test]
fn answers_of_all_versions() {
    #[track_caller]
    fn check(address: [u8; 4], expected: [Option<SourceAddr>; 4]) {
        let address = Ipv4Addr::from(address);
        assert_eq!(answers(address.into()), expected, "{address}");
    }
    let fibonacci = Some(Fibonacci);
    check([0, 0, 0, 0], [Some(Fizz), Some(FizzBuzz), fibonacci, fibonacci]);
    check([0, 0, 0, 1], [None, None, fibonacci, fibonacci]);
    check([0, 0, 0, 4], [None; 4]);
    check([0, 0, 0, 5], [None, Some(Buzz), fibonacci, fibonacci]);
    check([0, 0, 0, 6], [Some(Fizz); 4]);
    check([0, 0, 0, 10], [None, Some(Buzz), Some(Buzz), Some(Buzz)]);
    check([0, 0, 0, 15], [Some(Fizz), Some(FizzBuzz), Some(FizzBuzz), Some(FizzBuzz)]);
    check([0, 0, 0, 233], [None, None, fibonacci, fibonacci]);
    // 256 is 1 modulo 3 and modulo 5, so only the sum of an address's octets matters.
    check([10, 0, 0, 2], [Some(Fizz), Some(Fizz), fibonacci, fibonacci]);
    check([10, 0, 0, 20], [Some(Fizz), Some(FizzBuzz), Some(FizzBuzz), Some(FizzBuzz)]);
    // Its first octet is a Fibonacci number, its last is not.
    check([13, 0, 0, 7], [None, Some(Buzz), Some(Buzz), Some(Buzz)]);
    // 241 is 121 + 120, where 121 is 377 in eight bits: not a Fibonacci number, but a wrapping walk finds it.
    check([0, 0, 0, 241], [None; 4]);
    check([0, 0, 0, 247], [None; 4]);
    check([0, 0, 0, 253], [None; 4]);
    check([0, 0, 0, 245], [None, Some(Buzz), Some(Buzz), Some(Buzz)]);
    check([0, 0, 0, 255], [Some(Fizz), Some(FizzBuzz), Some(FizzBuzz), Some(FizzBuzz)]);
    check([255, 255, 255, 255], [Some(Fizz), Some(FizzBuzz), Some(FizzBuzz), Some(FizzBuzz)]);
}

#[test]
fn fibonacci_octets_are_found_whatever_stands_before_them() {
    for octet in 0..=255_u8 {
        for before in [0, 0x0a00_0000, 0x7f00_0100, 0xc0a8_0d00, 0xffff_ff00] {
            let address = before | u32::from(octet);
            let is_fibonacci = FIBONACCI.contains(&octet);
            let [_, v2, v3, v4] = answers(address);
            assert_eq!(v3, if is_fibonacci { Some(Fibonacci) } else { v2 }, "{address:#x}");
            assert_eq!(v4, v3, "{address:#x}");
        }
    }
}

#[test]
fn classes_survive_the_queue() {
    for (place, class) in SourceAddr::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, place);
        assert_eq!(SourceAddr::from_raw(class as u32), Some(class));
    }
    assert_eq!(SourceAddr::from_raw(4), None);
    assert_eq!(SourceAddr::from_raw(u32::MAX), None);
}

#[test]
fn classes_have_names() {
    assert_eq!(
        SourceAddr::ALL.map(|class| class.to_string()),
        ["Fizz", "Buzz", "FizzBuzz", "Fibonacci"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn v4_is_v3(address: u32) {
        prop_assert_eq!(SourceAddr::new_v4(address), SourceAddr::new_v3(address));
    }

    #[test]
    fn each_version_adds_to_the_one_before(address: u32) {
        let [v1, v2, v3, _] = answers(address);
        let (by_3, by_5) = (address.is_multiple_of(3), address.is_multiple_of(5));
        prop_assert_eq!(v1.is_some(), by_3);
        if by_5 {
            prop_assert_eq!(v2, Some(if by_3 { FizzBuzz } else { Buzz }));
        } else {
            prop_assert_eq!(v2, v1);
        }
        if !FIBONACCI.contains(&last_octet(address)) {
            prop_assert_eq!(v3, v2);
        }
    }
}
