//! The rules of one function, from its entry.

use std::ops::Range;

use gimli::{BaseAddresses, CommonInformationEntry, UnwindContext, UnwindOffset, UnwindSection};
use wingbeat_profiler_abi::unwind::Rule;

use super::{Entry, Image, Source};
use crate::interpret::{Bytes, rule_of};

/// A function entry, with an address range.
pub(super) struct Function<'a> {
    pub(super) image: &'a Image,
    pub(super) entry: Entry,
    pub(super) bounds: Range<u64>,
}

/// A function with unknown rules from some address on.
pub(super) struct Damaged {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The last common entry. The next function mostly uses the same, which is then not parsed again.
#[derive(Default)]
pub(super) struct Shared<'a> {
    last: Option<(Source, usize, CommonInformationEntry<Bytes<'a>>)>,
}

impl<'i> Function<'i> {
    /// Emits the rules, and returns their end address.
    pub(super) fn rules(
        &self,
        shared: &mut Shared<'i>,
        context: &mut UnwindContext<usize>,
        emit: &mut impl FnMut(u64, Rule),
    ) -> Result<u64, Damaged> {
        let nothing = Damaged { from: self.entry.start, to: self.entry.start };
        match self.entry.source {
            Source::EhFrame => {
                let section = self.image.eh_frame.as_ref().ok_or(nothing)?;
                self.rules_of(&self.image.eh_frame_of(section), shared, context, emit)
            }
            Source::DebugFrame => {
                let section = self.image.debug_frame.as_ref().ok_or(nothing)?;
                self.rules_of(&self.image.debug_frame_of(section), shared, context, emit)
            }
        }
    }

    fn rules_of<S: UnwindSection<Bytes<'i>>>(
        &self,
        section: &S,
        shared: &mut Shared<'i>,
        context: &mut UnwindContext<usize>,
        emit: &mut impl FnMut(u64, Rule),
    ) -> Result<u64, Damaged> {
        let Range { start: first, end: bound } = self.bounds;
        let Self { image: Image { bases, registers, .. }, entry, .. } = self;
        let offset = S::Offset::from(entry.offset);
        let share = |section: &S, bases: &BaseAddresses, offset: S::Offset| {
            let at = (entry.source, UnwindOffset::into(offset));
            match &shared.last {
                Some((source, offset, known)) if (*source, *offset) == at => Ok(known.clone()),
                _ => {
                    let read = section.cie_from_offset(bases, offset)?;
                    shared.last = Some((at.0, at.1, read.clone()));
                    Ok(read)
                }
            }
        };
        let Ok(function) = section.fde_from_offset(bases, offset, share) else {
            return Err(Damaged { from: entry.start, to: entry.start });
        };
        let (mut at, end) = (function.initial_address(), function.end_address().min(bound));
        // An index that does not match its entry could refer to it from any number of addresses.
        if at != entry.start {
            return Err(Damaged { from: entry.start, to: entry.start });
        }
        let is_signal = function.is_signal_trampoline();
        let Ok(mut rows) = function.rows(section, bases, context) else {
            return Err(Damaged { from: at, to: end });
        };
        loop {
            match rows.next_row() {
                Ok(Some(row)) => {
                    let start = row.start_address().max(first);
                    if start >= end {
                        return Ok(end);
                    }
                    at = row.end_address().min(end);
                    if start < at {
                        emit(start, rule_of(row, section, *registers, is_signal));
                    }
                }
                Ok(None) => return Ok(end),
                Err(_) => return Err(Damaged { from: at, to: end }),
            }
        }
    }
}
