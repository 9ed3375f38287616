//! Functions of a few instructions, with and without proof.

use super::*;

const START: u64 = 0x1000;

/// Checks the rules of some code without any entry, given symbols.
fn check(code: &[u8], functions: &[u64], expected: &[&str]) {
    let end = START + code.len() as u64;
    let read = |address: u64, bytes: u64| {
        let start = usize::try_from(address.checked_sub(START)?).ok()?;
        code.get(start..start.checked_add(bytes as usize)?).map(<[u8]>::to_vec)
    };
    let (gaps, functions) = (std::iter::once(START..end).collect(), || functions.to_vec());
    let rules = CodeRules::read(&Sources { gaps, entry: 0, functions: &functions, read: &read });
    let mut found = Vec::new();
    rules.emit(START..end, &mut |address, rule| {
        found.push(format!("{:x} {rule:?}", address - START));
    });
    assert_eq!(found, expected, "{code:02x?}");
}

#[test]
fn functions_that_return_are_proven() {
    let plain = ["0 cfa=r7+8 ra=c-8", "1 cfa=r7+16 ra=c-8", "2 cfa=r7+8 ra=c-8"];
    // push rbx; pop rbx; ret
    check(&[0x53, 0x5b, 0xc3], &[], &plain);
    // push rbx; ret: does not return to a return address.
    check(&[0x53, 0xc3], &[], &["0 gap"]);
    check(&[0x53, 0xc3], &[START], &["0 gap"]);
    // push rbx; jz to the return, with the pushed value on the stack
    check(&[0x53, 0x74, 0x01, 0x5b, 0xc3], &[START], &["0 gap"]);
    // push rbx; hlt: never returns, so it is a function only with a symbol.
    check(&[0x53, 0xf4], &[], &["0 gap"]);
    check(&[0x53, 0xf4], &[START], &plain[..2]);
    // An invalid or truncated instruction.
    check(&[0x53, 0x06, 0x5b, 0xc3], &[START], &["0 gap", "2 cfa=r7+8 ra=c-8"][..1]);
    check(&[0x53, 0x48], &[START], &["0 gap"]);
}

#[test]
fn code_behind_a_call_that_does_not_return_is_another_function() {
    // push rbx; call 0x10; (nop up to 0x10) ud2, then 0x20: push rbp; push rbx; pop rbx; pop rbp; ret
    let mut code = vec![0x90; 0x20];
    code[..6].copy_from_slice(&[0x53, 0xe8, 0x0a, 0, 0, 0]);
    code[0x10..0x12].copy_from_slice(&[0x0f, 0x0b]);
    code.extend([0x55, 0x53, 0x5b, 0x5d, 0xc3]);
    let expected = [
        "0 cfa=r7+8 ra=c-8",
        "1 cfa=r7+16 ra=c-8",
        "6 gap",
        "10 cfa=r7+8 ra=c-8",
        "12 gap",
        "20 cfa=r7+8 ra=c-8",
        "21 cfa=r7+16 ra=c-8",
        "22 cfa=r7+24 ra=c-8",
        "23 cfa=r7+16 ra=c-8",
        "24 cfa=r7+8 ra=c-8",
    ];
    check(&code, &[START], &expected);
}

#[test]
fn cases_are_found_by_their_table() {
    // cmp edi, 1; ja 0x18; lea rdx, [rip+0x1c]; movsxd rax, [rdx+4*rdi]; add rax, rdx; jmp rax
    let mut code = vec![
        0x53, 0x83, 0xff, 0x01, 0x77, 0x12, 0x48, 0x8d, 0x15, 0x13, 0, 0, 0, 0x48, 0x63, 0x04,
        0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0x90, 0x90, 0x5b, 0xc3, 0x90, 0x90, 0x5b, 0xc3, 0x90,
        0x90,
    ];
    code.extend((0x18_i32 - 0x20).to_le_bytes());
    code.extend((0x1c_i32 - 0x20).to_le_bytes());
    let expected = [
        "0 cfa=r7+8 ra=c-8",
        "1 cfa=r7+16 ra=c-8",
        "16 gap",
        "18 cfa=r7+16 ra=c-8",
        "19 cfa=r7+8 ra=c-8",
        "1a gap",
        "1c cfa=r7+16 ra=c-8",
        "1d cfa=r7+8 ra=c-8",
        "1e gap",
    ];
    check(&code, &[START], &expected);
}

#[test]
fn any_bytes() {
    // A pseudorandom byte generator: each start gives other instructions.
    let mut seed = 1_u64;
    for len in 0..400 {
        let code: Vec<u8> = (0..len)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as u8
            })
            .collect();
        let read = |address: u64, bytes: u64| {
            let start = usize::try_from(address.checked_sub(START)?).ok()?;
            code.get(start..start.checked_add(bytes as usize)?).map(<[u8]>::to_vec)
        };
        let gaps = std::iter::once(START..START + len).collect();
        let sources = Sources { gaps, entry: START, functions: &|| vec![START], read: &read };
        let mut last = None;
        CodeRules::read(&sources).emit(START..START + len, &mut |address, _| {
            assert!(last < Some(address));
            last = Some(address);
        });
    }
}
