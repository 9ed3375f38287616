//! Processes and threads of the samples, with their names and lifetimes.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    model::{Process, ProcessId, Thread, ThreadId},
    proc,
};

/// Processes and threads with samples, and the names of those that may get some.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub processes: Vec<Process>,
    pub threads: Vec<Thread>,
    live_processes: FxHashMap<u32, ProcessId>,
    live_threads: FxHashMap<u32, ThreadId>,
    /// State of threads without samples: name, and creation after the start of recording.
    names: FxHashMap<u32, String>,
    births_ns: FxHashMap<u32, u64>,
    pub lineage: Lineage,
    /// Threads that exited since the last window, and those that did before.
    ended: FxHashSet<u32>,
    ended_before: FxHashSet<u32>,
}

/// Origin of exited processes.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    /// Parent of each process created since the start of recording.
    pub parents: FxHashMap<u32, u32>,
    /// Id of the cgroup v2 in which a process was last sampled.
    pub cgroups: FxHashMap<u32, u64>,
}

impl Threads {
    /// The entry of a sampled thread.
    pub(crate) fn sampled(&mut self, pid: u32, tid: u32) -> ThreadId {
        match self.live_threads.get(&tid) {
            Some(&id) => id,
            None => self.add(pid, tid),
        }
    }

    fn add(&mut self, pid: u32, tid: u32) -> ThreadId {
        let process = match self.live_processes.get(&pid) {
            Some(&process) => process,
            None => {
                let id = self.processes.len() as ProcessId;
                let name = self.name(pid, pid);
                let start_ns = self.births_ns.get(&pid).copied().unwrap_or(0);
                let parent = self.parent(pid);
                self.processes.push(Process { pid, parent, name, start_ns, end_ns: None });
                self.live_processes.insert(pid, id);
                id
            }
        };
        let id = self.threads.len() as ThreadId;
        let start_ns = self.births_ns.get(&tid).copied().unwrap_or(0);
        let name = self.name(pid, tid);
        self.threads.push(Thread { process, tid, name, start_ns, end_ns: None, on_cpu_ns: None });
        self.live_threads.insert(tid, id);
        id
    }

    /// Adds the only known thread of a process that is another by now, with its start and end since the start of
    /// recording.
    pub(super) fn add_ended(
        &mut self,
        (pid, tid): (u32, u32),
        name: String,
        (start_ns, end_ns): (u64, u64),
    ) -> ThreadId {
        let process = self.processes.len() as ProcessId;
        let end_ns = Some(end_ns);
        let parent = self.parent(pid);
        self.processes.push(Process { pid, parent, name: name.clone(), start_ns, end_ns });
        self.threads.push(Thread { process, tid, name, start_ns, end_ns, on_cpu_ns: None });
        self.threads.len() as ThreadId - 1
    }

    /// The entry of a thread, if it has one.
    pub(super) fn live(&self, tid: u32) -> Option<ThreadId> {
        self.live_threads.get(&tid).copied()
    }

    /// The name of a thread: from events so far, or else its current one, which is cached.
    pub(super) fn name(&mut self, pid: u32, tid: u32) -> String {
        if let Some(name) = self.names.get(&tid) {
            return name.clone();
        }
        let Some(name) = proc::comm(pid, tid) else { return format!("PID {pid}") };
        self.names.insert(tid, name.clone());
        name
    }

    /// The name of a process's first thread, from events so far.
    pub(super) fn known_name(&self, pid: u32) -> String {
        self.names.get(&pid).cloned().unwrap_or_else(|| format!("PID {pid}"))
    }

    /// Stores the names of a process's threads, before it exits or calls `exec`.
    pub(super) fn adopt(&mut self, pid: u32) {
        for tid in proc::threads(pid) {
            if !self.names.contains_key(&tid)
                && let Some(name) = proc::comm(pid, tid)
            {
                self.names.insert(tid, name);
            }
        }
    }

    /// Records the parent of a new process.
    pub(crate) fn forked(&mut self, pid: u32, parent: u32) {
        self.lineage.parents.insert(pid, parent);
        self.lineage.cgroups.remove(&pid);
    }

    /// The parent of a process, if it was created since the start of recording.
    pub(crate) fn parent(&self, pid: u32) -> Option<u32> {
        self.lineage.parents.get(&pid).copied()
    }

    /// Records a thread's creation at `time_ns` since the start of recording.
    pub(crate) fn born(&mut self, tid: u32, creator: u32, time_ns: u64) {
        self.ended.remove(&tid);
        self.ended_before.remove(&tid);
        self.live_threads.remove(&tid);
        self.live_processes.remove(&tid);
        self.births_ns.insert(tid, time_ns);
        // It has its creator's name until it gets its own.
        if let Some(name) = self.names.get(&creator).cloned() {
            self.names.insert(tid, name);
        } else {
            self.names.remove(&tid);
        }
    }

    /// Renames a thread. If `since_ns` has the time of the change, in nanoseconds since the start of recording,
    /// earlier samples keep the old name: pools name threads by tasks.
    pub(crate) fn named(&mut self, pid: u32, tid: u32, name: String, since_ns: Option<u64>) {
        if let Some(&id) = self.live_threads.get(&tid) {
            let thread = &mut self.threads[id as usize];
            match since_ns {
                None => thread.name.clone_from(&name),
                Some(_) if thread.name == name => {}
                Some(since_ns) => {
                    thread.end_ns = Some(since_ns);
                    self.live_threads.remove(&tid);
                    self.births_ns.insert(tid, since_ns);
                }
            }
        }
        if pid == tid
            && let Some(&id) = self.live_processes.get(&pid)
        {
            self.processes[id as usize].name.clone_from(&name);
        }
        self.names.insert(tid, name);
    }

    /// Starts another program in a process, separate from what it did before.
    pub(crate) fn execed(&mut self, pid: u32, name: String, time_ns: u64) {
        self.ended(pid, pid, time_ns);
        self.ended.remove(&pid);
        self.live_threads.remove(&pid);
        self.live_processes.remove(&pid);
        self.births_ns.insert(pid, time_ns);
        self.names.insert(pid, name);
    }

    /// Starts another window without samples. Removes and returns the threads that exited before the last window
    /// began. Samples may arrive a little after an exit.
    pub(super) fn next_window(&mut self) -> FxHashSet<u32> {
        let gone = std::mem::replace(&mut self.ended_before, std::mem::take(&mut self.ended));
        self.processes.clear();
        self.threads.clear();
        self.live_processes.clear();
        self.live_threads.clear();
        self.births_ns.clear();
        self.names.retain(|tid, _| !gone.contains(tid));
        self.lineage.parents.retain(|pid, _| !gone.contains(pid));
        self.lineage.cgroups.retain(|pid, _| !gone.contains(pid));
        gone
    }

    /// Marks a thread as exited. It may still be sampled while the kernel removes it, so it keeps its entry until
    /// its number is reused.
    pub(crate) fn ended(&mut self, pid: u32, tid: u32, time_ns: u64) {
        self.ended.insert(tid);
        if let Some(&id) = self.live_threads.get(&tid) {
            self.threads[id as usize].end_ns = Some(time_ns);
        }
        if pid == tid
            && let Some(&id) = self.live_processes.get(&pid)
        {
            self.processes[id as usize].end_ns = Some(time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_execs_is_two_processes() {
        let mut threads = Threads::default();
        threads.born(4_200_000, 1, 5);
        threads.named(4_200_000, 4_200_000, "sh".into(), None);
        let shell = threads.sampled(4_200_000, 4_200_000);
        threads.execed(4_200_000, "ls".into(), 9);
        let ls = threads.sampled(4_200_000, 4_200_000);
        assert_ne!(shell, ls);
        let names: Vec<_> = threads.processes.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["sh", "ls"]);
        assert_eq!((threads.processes[0].start_ns, threads.processes[0].end_ns), (5, Some(9)));
        assert_eq!((threads.processes[1].start_ns, threads.processes[1].end_ns), (9, None));
    }

    #[test]
    fn who_ended_is_forgotten_a_window_later() {
        let mut threads = Threads::default();
        threads.named(4_200_000, 4_200_000, "one".into(), None);
        threads.named(4_200_001, 4_200_001, "two".into(), None);
        threads.ended(4_200_000, 4_200_000, 7);
        threads.ended(4_200_001, 4_200_001, 7);
        assert!(threads.next_window().is_empty());
        assert_eq!(threads.known_name(4_200_000), "one");
        // Its number is reused now.
        threads.born(4_200_001, 1, 3);
        assert_eq!(threads.next_window(), FxHashSet::from_iter([4_200_000]));
        assert_eq!(threads.known_name(4_200_000), "PID 4200000");
        assert!(threads.next_window().is_empty() && threads.names.is_empty());
    }

    #[test]
    fn names_follow_a_sampled_thread() {
        let mut threads = Threads::default();
        threads.named(4_200_000, 4_200_000, "main".into(), None);
        threads.born(4_200_001, 4_200_000, 3);
        let worker = threads.sampled(4_200_000, 4_200_001) as usize;
        assert_eq!(threads.threads[worker].name, "main");
        threads.named(4_200_000, 4_200_001, "worker".into(), None);
        assert_eq!(threads.threads[worker].name, "worker");
        // A thread named by its tasks has several entries.
        threads.named(4_200_000, 4_200_001, "task".into(), Some(9));
        let task = threads.sampled(4_200_000, 4_200_001) as usize;
        let ends =
            [worker, task].map(|id| (threads.threads[id].start_ns, threads.threads[id].end_ns));
        assert_eq!(ends, [(3, Some(9)), (9, None)]);
        assert_eq!(
            (&*threads.threads[worker].name, &*threads.threads[task].name),
            ("worker", "task")
        );
        assert_eq!(threads.processes[0].name, "main");
    }
}
