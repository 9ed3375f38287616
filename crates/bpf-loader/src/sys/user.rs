//! Runs a command as another user: like [`Command::uid`](std::os::unix::process::CommandExt::uid),
//! with supplementary groups.

use std::{io, os::unix::process::CommandExt as _, process::Command};

use rustix::{
    process::{Gid, Uid},
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};

/// Makes a command run as this user, if this process is root when it starts it.
pub(crate) fn run_as(command: &mut Command, user: u32, group: u32, groups: &[u32]) {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let change = move || -> io::Result<()> {
        // The user last: afterwards the privilege to change groups is gone.
        set_thread_groups(&groups)?;
        set_thread_gid(group)?;
        Ok(set_thread_uid(user)?)
    };
    // SAFETY: the child, which has one thread, only makes three system calls.
    unsafe {
        command.pre_exec(change);
    }
}
