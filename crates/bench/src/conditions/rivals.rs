//! Other measurements on the same CPU.

use super::files::Files;

/// Name of this program's processes.
const NAME: &str = "wingbeat";

/// Ids of other processes of this program of which a thread is bound to `cpu`, as a measuring one is.
pub(super) fn on_cpu(files: Files<'_>, cpu: u32) -> Vec<u32> {
    let is_bound = |status: &str| {
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        allowed.is_some_and(|allowed| allowed.trim() == cpu.to_string())
    };
    let mut processes = files.numbers("proc");
    processes.retain(|process| {
        *process != std::process::id()
            && files.text(&format!("proc/{process}/comm")).is_some_and(|name| name == NAME)
            && files.numbers(&format!("proc/{process}/task")).into_iter().any(|thread| {
                let status = files.text(&format!("proc/{process}/task/{thread}/status"));
                status.is_some_and(|status| is_bound(&status))
            })
    });
    processes.sort_unstable();
    processes
}
