//! Tracks the calls of a process from its instructions.

use wingbeat_profiler_abi::unwind::Memory as _;

use super::process::Stepped;

/// Effect of an instruction on the call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Call,
    Return,
    /// A jump to an address in a register or in memory: `longjmp` leaves functions by this.
    Jump,
    Other,
}

pub(crate) fn effect(code: &[u8]) -> Effect {
    let is_prefix = |byte: &u8| {
        [0xf2, 0xf3, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0x66, 0x67].contains(byte)
            || byte & 0xf0 == 0x40
    };
    let start = code.iter().position(|byte| !is_prefix(byte)).unwrap_or(code.len());
    match code[start..] {
        [0xe8, ..] => Effect::Call,
        [0xc2 | 0xc3, ..] => Effect::Return,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Effect::Call,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 4 => Effect::Jump,
        _ => Effect::Other,
    }
}

/// The caller of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Caller {
    /// A return address and its location.
    Call { place: u64, return_address: u64 },
    /// Code that a signal interrupted.
    Interrupted { ip: u64 },
}

/// The calls in progress, outermost first.
#[derive(Debug, Default)]
pub(crate) struct Calls(Vec<Caller>);

impl Calls {
    pub(crate) fn after(
        &mut self,
        effect: Effect,
        is_signal: bool,
        before: u64,
        stepped: &mut Stepped,
    ) {
        let (ip, sp) = (stepped.registers.rip, stepped.registers.rsp);
        let call = |stepped: &mut Stepped| {
            let return_address = stepped.word(sp).expect("a return address");
            Caller::Call { place: sp, return_address }
        };
        if is_signal {
            self.0.push(Caller::Interrupted { ip: before });
            self.0.push(call(stepped));
            return;
        }
        match effect {
            Effect::Call => self.0.push(call(stepped)),
            Effect::Return | Effect::Jump => {
                while let Some(Caller::Call { place, .. }) = self.0.last()
                    && *place < sp
                {
                    self.0.pop();
                }
            }
            Effect::Other => {
                if let Some(Caller::Interrupted { ip: interrupted }) = self.0.last()
                    && *interrupted == ip
                {
                    self.0.pop();
                }
            }
        }
    }

    /// The addresses of a stack, innermost first.
    pub(crate) fn stack(&self, ip: u64) -> Vec<u64> {
        let address = |caller: &Caller| match caller {
            Caller::Call { return_address, .. } => *return_address,
            Caller::Interrupted { ip } => *ip,
        };
        [ip].into_iter().chain(self.0.iter().rev().map(address)).collect()
    }
}
