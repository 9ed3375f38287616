//! One batch of files: served from the cache or downloaded, with an outcome for each.

use std::{fs::File, io, os::fd::BorrowedFd, sync::Arc};

use rustc_hash::FxHashMap;
use tempfile::NamedTempFile;

use super::{
    Asked, BuildId, DebugFiles, Debuginfod, DownloadError, Outcome, Progress, Wanted,
    cache::{Cache, Entry},
    http::Watch,
    workers::{Job, Workers},
};

/// One batch of requested files.
pub(super) struct Round<'a> {
    pub client: &'a Debuginfod,
    pub watch: &'a Arc<Watch>,
    pub stop: BorrowedFd<'a>,
    pub progress: &'a mut dyn FnMut(Progress),
}

impl Round<'_> {
    /// Fetches files, and adds those found.
    pub(super) fn run(&mut self, wanted: Vec<Wanted>, found: &mut DebugFiles) {
        let cache = &self.client.cache;
        let mut outcomes: Vec<Result<Outcome, DownloadError>> = Vec::new();
        let mut begun: Vec<(usize, NamedTempFile)> = Vec::new();
        for (index, Wanted { build_id, .. }) in wanted.iter().enumerate() {
            outcomes.push(match cache.look_up(build_id) {
                Entry::File(file) => {
                    found.files.insert(build_id.bytes().to_vec(), file);
                    Ok(Outcome::Cached)
                }
                Entry::Miss => Ok(Outcome::NotFound),
                // Until its download finishes.
                Entry::Unknown => match cache.begin(build_id) {
                    Ok(file) => {
                        begun.push((index, file));
                        Err(DownloadError::Interrupted)
                    }
                    Err(error) => Err(cannot_keep(cache, &error)),
                },
            });
        }
        let downloaded = self.download(&wanted, begun, &mut outcomes);
        for (id, file) in downloaded {
            found.files.insert(id.bytes().to_vec(), file);
        }
        for (Wanted { path, build_id }, outcome) in wanted.into_iter().zip(outcomes) {
            let (outcome, error) = match outcome {
                Ok(outcome) => (outcome, None),
                Err(error) => {
                    cache.forget(&build_id);
                    (Outcome::Failed, Some(error))
                }
            };
            found.account.files.push(Asked { path, build_id, outcome, error });
        }
    }

    /// Downloads into files, keeps valid ones, and records the outcomes.
    fn download(
        &mut self,
        wanted: &[Wanted],
        begun: Vec<(usize, NamedTempFile)>,
        outcomes: &mut [Result<Outcome, DownloadError>],
    ) -> Vec<(BuildId, File)> {
        let cache = &self.client.cache;
        let mut kept = Vec::new();
        let mut jobs = Vec::new();
        let mut files: FxHashMap<usize, NamedTempFile> = FxHashMap::default();
        for (index, file) in begun {
            // A second descriptor, so that an abandoned download does not keep the file.
            match file.as_file().try_clone() {
                Ok(into) => {
                    jobs.push(Job { index, id: wanted[index].build_id.clone(), into });
                    files.insert(index, file);
                }
                Err(error) => outcomes[index] = Err(cannot_keep(cache, &error)),
            }
        }
        let mut settle = |index: usize, result: Result<bool, DownloadError>| {
            let id = &wanted[index].build_id;
            outcomes[index] = match (result, files.remove(&index)) {
                (Err(error), _) => Err(error),
                (Ok(true), Some(file)) => match cache.keep(id, file) {
                    Ok(file) => {
                        kept.push((id.clone(), file));
                        Ok(Outcome::Downloaded)
                    }
                    Err(error) => Err(cannot_keep(cache, &error)),
                },
                (Ok(_), _) => {
                    // A miss that cannot be recorded costs another request.
                    let _ = cache.keep_miss(id);
                    Ok(Outcome::NotFound)
                }
            };
        };
        let workers = Workers::start(jobs, &self.client.settings.servers, self.watch);
        let why = workers.wait(self.stop, self.progress, &mut settle);
        // Unfinished downloads.
        for (index, file) in files {
            drop(file);
            outcomes[index] = Err(why.clone());
        }
        kept
    }
}

fn cannot_keep(cache: &Cache, error: &io::Error) -> DownloadError {
    DownloadError::Cache { reason: format!("{}: {error}", cache.root().display()) }
}
