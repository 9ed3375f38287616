//! Holds measured programs so that they stay loaded.

use std::os::fd::OwnedFd;

use wingbeat_bpf_loader::program::{self, ProgramInfo};

use super::{
    LiveError,
    choose::{Wanted, matching},
    report::label,
    sampler::name_of,
};

/// A program kept loaded by this descriptor.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) descriptor: OwnedFd,
    pub(super) info: ProgramInfo,
    pub(super) name: String,
}

/// Opens the matching programs, once each, by ascending id.
pub(super) fn hold(wanted: &[String]) -> Result<Vec<Held>, LiveError> {
    let mut all = hold_all()?;
    if all.is_empty() {
        return Err(LiveError::NothingLoaded);
    }
    if wanted.is_empty() {
        return Ok(all);
    }
    let loaded: Vec<_> = all.iter().map(|held| (held.name.as_str(), &held.info)).collect();
    let mut ids = Vec::new();
    for text in wanted {
        match Wanted::from(text.as_str()) {
            Wanted::Word(word) => ids.extend(matching(&word, &loaded)?),
            Wanted::Pin(path) => {
                let failed = |source| LiveError::Pin { path: path.clone(), source };
                let descriptor = program::open_pinned(&path).map_err(failed)?;
                ids.push(ProgramInfo::of(&descriptor).map_err(failed)?.id);
            }
        }
    }
    all.retain(|held| ids.contains(&held.info.id));
    Ok(all)
}

fn hold_all() -> Result<Vec<Held>, LiveError> {
    let ids = program::ids().map_err(LiveError::system("list the loaded programs"))?;
    let held = ids.into_iter().filter_map(|id| {
        // It may already be unloaded.
        let descriptor = program::open(id).ok()?;
        let info = ProgramInfo::of(&descriptor).ok()?;
        let name = name_of(&info, &descriptor);
        Some(Held { descriptor, info, name })
    });
    Ok(held.collect())
}

impl Held {
    /// Name of the program in messages.
    pub(super) fn label(&self) -> String {
        label(self.info.id, &self.name)
    }
}
