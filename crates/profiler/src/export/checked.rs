//! Type-level precondition of every exporter: all ids of the profile are valid indices.

use std::ops::Deref;

use super::ExportError;
use crate::model::Profile;

/// A profile with checked ids, which exporters may index with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked<'a>(&'a Profile);

impl<'a> Checked<'a> {
    /// Checks every id.
    pub(super) fn new(profile: &'a Profile) -> Result<Self, ExportError> {
        let binaries = Table { name: "binaries", len: profile.binaries.len() };
        let functions = Table { name: "functions", len: profile.functions.len() };
        let frames = Table { name: "frames", len: profile.frames.len() };
        let stacks = Table { name: "stacks", len: profile.stacks.len() };
        let processes = Table { name: "processes", len: profile.processes.len() };
        let threads = Table { name: "threads", len: profile.threads.len() };
        let blocked = Table { name: "blocked stacks", len: profile.blocked.len() };

        for frame in &profile.frames {
            binaries.check(frame.binary)?;
            functions.check(frame.lines.iter().map(|line| line.function))?;
        }
        for stack in &profile.stacks {
            frames.check(stack.frames.iter().copied())?;
        }
        processes.check(profile.threads.iter().map(|thread| thread.process))?;
        stacks.check(profile.samples.iter().map(|sample| sample.stack))?;
        threads.check(profile.samples.iter().map(|sample| sample.thread))?;
        stacks.check(profile.blocked.iter().map(|blocked| blocked.stack))?;
        threads.check(profile.blocked.iter().map(|blocked| blocked.thread))?;
        for sites in [profile.sites.as_slice(), profile.mapped_sites()] {
            stacks.check(sites.iter().map(|site| site.stack))?;
            threads.check(sites.iter().map(|site| site.thread))?;
        }
        stacks.check(profile.sums.iter().map(|sum| sum.stack))?;
        threads.check(profile.sums.iter().map(|sum| sum.thread))?;
        blocked.check(profile.intervals.iter().map(|interval| interval.blocked))?;
        Ok(Self(profile))
    }

    /// The profile, with its own lifetime.
    pub(super) fn profile(self) -> &'a Profile {
        self.0
    }
}

impl Deref for Checked<'_> {
    type Target = Profile;

    fn deref(&self) -> &Profile {
        self.0
    }
}

struct Table {
    name: &'static str,
    len: usize,
}

impl Table {
    fn check(&self, ids: impl IntoIterator<Item = u32>) -> Result<(), ExportError> {
        match ids.into_iter().find(|&id| id as usize >= self.len) {
            Some(id) => Err(ExportError::Inconsistent { table: self.name, id, len: self.len }),
            None => Ok(()),
        }
    }
}
