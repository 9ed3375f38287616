//! A network namespace for one thread, with a veth pair: used to send packets by the loader's tests
//! and the macro benchmark.
//!
//! The namespace has no name. Nothing has to be cleaned up: the kernel removes it with all its
//! contents when the last thread or process in it has ended, be it by a panic, Ctrl-C or `kill -9`.

use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use anyhow::{Context, anyhow, bail};
use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

/// The interface on which packets arrive.
pub(crate) const RECEIVER: &str = "fun1";

/// Destination of packets. The address is unassigned; a static neighbour entry says that it is at
/// the other end of the veth pair.
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Without IPv6 addresses the kernel sends no packets by itself: everything that arrives was sent by us.
const SET_UP: &str = "\
link add fun0 address 02:00:00:00:00:01 type veth peer name fun1 address 02:00:00:00:00:02
link set fun0 addrgenmode none
link set fun1 addrgenmode none
link set lo up
link set fun1 up
link set fun0 up
address add 10.9.0.1/24 dev fun0
neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev fun0
";

/// The network, for senders.
pub(crate) struct Network(OwnedFd);

impl Network {
    /// Moves this thread, and the threads and processes that it starts later, to a new network namespace.
    pub(crate) fn enter() -> anyhow::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| match errno {
            Errno::EPERM => anyhow!("not permitted to make a network namespace: run this as root"),
            errno => anyhow!(errno).context("cannot make a network namespace"),
        })?;
        // On a host with forwarding, such as one with containers, packets would loop here. If the
        // file is not writable, the host usually does not forward either.
        let _ = fs::write("/proc/sys/net/ipv4/ip_forward", "0");
        ip(SET_UP)?;
        let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))
            .context("cannot open a raw socket")?;
        Ok(Self(raw))
    }

    /// Sends an IPv4 packet with this source address to [`RECEIVER`].
    pub(crate) fn send(&self, source: Ipv4Addr) -> anyhow::Result<()> {
        self.send_to(source, DESTINATION)
    }

    /// Sends an IPv4 packet with any two addresses, none of them 0.0.0.0.
    pub(crate) fn send_to(&self, source: Ipv4Addr, destination: Ipv4Addr) -> anyhow::Result<()> {
        let packet = header(source, destination);
        let to = SocketAddrV4::new(destination, 0);
        let sent = sendto(&self.0, &packet, SendFlags::empty(), &to);
        sent.map(drop).with_context(|| format!("cannot send from {source} to {destination}"))
    }
}

/// Runs commands of `ip`, one a line, in this thread's network.
pub(crate) fn ip(commands: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip`: `cargo xtask setup` installs it (package iproute2)")?;
    if let Some(mut stdin) = child.stdin.take() {
        // Some lines, which fit in the pipe. If `ip` does not read them, its exit code shows it.
        let _ = stdin.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output().context("cannot wait for `ip`")?;
    if !output.status.success() {
        bail!("`ip` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// An IPv4 header without payload (RFC 791). The kernel fills in length, identifier and checksum.
fn header(source: Ipv4Addr, destination: Ipv4Addr) -> [u8; 20] {
    /// Reserved for experiments (RFC 3692): the kernel ignores it.
    const PROTOCOL: u8 = 253;
    let mut header = [0; 20];
    header[0] = 0x45;
    header[8] = 64;
    header[9] = PROTOCOL;
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    header
}
