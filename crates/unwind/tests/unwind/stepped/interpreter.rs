//! Walks with an interpreter of call frame information that tracks all registers and evaluates all expressions: a
//! third opinion, using only gimli.

use std::collections::HashMap;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, Evaluation, EvaluationResult, Location,
    NativeEndian, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _,
    UnwindTableRow, Value,
};
use object::{Object as _, ObjectSection as _};
use wingbeat_profiler_abi::unwind::{Memory as _, REGISTERS};

use super::{FRAMES_MAX, Mapping, Tables, process::Stepped};

/// DWARF numbers on x86-64.
const SP: usize = 7;
const RETURN_ADDRESS: usize = 16;

/// The section of a file, and the addresses of its functions.
struct Frames {
    bytes: Vec<u8>,
    bases: BaseAddresses,
    /// First address, last, and the position of the entry.
    entries: Vec<(u64, u64, usize)>,
}

/// The row for an address; `None` if no entry covers it.
type Row = Option<(UnwindTableRow<usize>, bool)>;

#[derive(Default)]
pub(crate) struct Interpreter {
    files: HashMap<String, Option<Frames>>,
    rows: HashMap<u64, Row>,
}

impl Interpreter {
    /// The addresses of a stack, innermost first, as far as it gets.
    pub(crate) fn walk(&mut self, stepped: &mut Stepped, tables: &Tables) -> Vec<u64> {
        let mut ip = stepped.registers.rip;
        let mut registers = stepped.by_number();
        registers[RETURN_ADDRESS] = ip;
        let mut stack = vec![ip];
        let mut is_call = false;
        while stack.len() < FRAMES_MAX {
            let address = ip - u64::from(is_call);
            let Some(mapping) =
                tables.mappings.iter().find(|it| (it.start..it.end).contains(&address))
            else {
                return stack;
            };
            let frames = self
                .files
                .entry(mapping.path.clone())
                .or_insert_with(|| tables.files.get(&mapping.path).and_then(|it| frames(it)));
            let Some(frames) = frames else { return stack };
            let row = self.rows.entry(address).or_insert_with(|| row(frames, mapping, address));
            let Some((row, is_signal)) = row else { return stack };
            let Some(next) = caller(frames, row, &mut registers, stepped) else { return stack };
            (ip, is_call) = (next, !*is_signal);
            stack.push(ip);
        }
        stack
    }
}

fn section(bytes: &[u8]) -> EhFrame<EndianSlice<'_, NativeEndian>> {
    let mut section = EhFrame::new(bytes, NativeEndian);
    section.set_address_size(8);
    section
}

fn frames(file: &[u8]) -> Option<Frames> {
    let file = object::File::parse(file).ok()?;
    let found = file.section_by_name(".eh_frame")?;
    let bases = BaseAddresses::default().set_eh_frame(found.address());
    let bytes = found.data().ok()?.to_vec();
    let frames = section(&bytes);
    let mut entries = Vec::new();
    let mut all = frames.entries(&bases);
    while let Ok(Some(entry)) = all.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(function) = partial.parse(EhFrame::cie_from_offset)
        {
            let start = function.initial_address();
            entries.push((start, function.end_address(), function.offset()));
        }
    }
    entries.sort_unstable();
    Some(Frames { bytes, bases, entries })
}

fn row(frames: &Frames, mapping: &Mapping, address: u64) -> Row {
    let address = address - mapping.bias;
    let found = frames.entries.iter().find(|(start, end, _)| (*start..*end).contains(&address))?;
    let frames_of = section(&frames.bytes);
    let offset = found.2.into();
    let function =
        frames_of.fde_from_offset(&frames.bases, offset, EhFrame::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row =
        function.unwind_info_for_address(&frames_of, &frames.bases, &mut context, address).ok()?;
    Some((row.clone(), function.is_signal_trampoline()))
}

/// The caller's address, if there is one. Updates the registers to those of the caller.
fn caller(
    frames: &Frames,
    row: &UnwindTableRow<usize>,
    registers: &mut [u64; REGISTERS],
    stepped: &mut Stepped,
) -> Option<u64> {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(usize::from(register.0))?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(frames, expression, None, registers, stepped)?,
    };
    let before = *registers;
    let mut next = [0; REGISTERS];
    for number in 0..=RETURN_ADDRESS {
        let unchanged = if number == SP { cfa } else { before[number] };
        next[number] = match row.register(Register(number as u16)) {
            None | Some(RegisterRule::SameValue) => unchanged,
            Some(RegisterRule::Undefined) if number == RETURN_ADDRESS => return None,
            Some(RegisterRule::Undefined) => unchanged,
            Some(RegisterRule::Offset(offset)) => stepped.word(cfa.wrapping_add_signed(offset))?,
            Some(RegisterRule::ValOffset(offset)) => cfa.wrapping_add_signed(offset),
            Some(RegisterRule::Register(other)) => *before.get(usize::from(other.0))?,
            Some(RegisterRule::Expression(expression)) => {
                let place = evaluate(frames, &expression, Some(cfa), &before, stepped)?;
                stepped.word(place)?
            }
            Some(RegisterRule::ValExpression(expression)) => {
                evaluate(frames, &expression, Some(cfa), &before, stepped)?
            }
            Some(_) => return None,
        };
    }
    *registers = next;
    (next[RETURN_ADDRESS] != 0).then_some(next[RETURN_ADDRESS])
}

fn evaluate(
    frames: &Frames,
    expression: &UnwindExpression<usize>,
    cfa: Option<u64>,
    registers: &[u64; REGISTERS],
    stepped: &mut Stepped,
) -> Option<u64> {
    let frames_of = section(&frames.bytes);
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut evaluation: Evaluation<EndianSlice<'_, NativeEndian>> =
        expression.get(&frames_of).ok()?.evaluation(encoding);
    if let Some(cfa) = cfa {
        evaluation.set_initial_value(cfa);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = *registers.get(usize::from(register.0))?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                let value = stepped.word(address)?;
                evaluation.resume_with_memory(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [piece] => match piece.location {
            Location::Address { address } => Some(address),
            _ => None,
        },
        _ => None,
    }
}
