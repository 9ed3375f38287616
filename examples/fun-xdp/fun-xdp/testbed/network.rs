//! A network for one thread, with two interfaces and a cable between them: what the tests of the
//! loader and the macro benchmark send packets through.
//!
//! It is a network namespace without a name. Nothing has to be removed afterwards, and nothing can
//! stay behind: the kernel removes the namespace with all that is in it when the last thread or
//! process in it has ended, be it by a panic, by Ctrl-C or by a `kill -9`.

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

/// The end of the cable where packets arrive.
pub(crate) const RECEIVER: &str = "fun1";

/// Where packets are sent to. Nobody has this address; a fixed entry in the table of neighbours says
/// that it is at the other end of the cable.
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Without addresses for IPv6 the kernel sends no packets of its own accord: what arrives was sent by
/// us.
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

/// The network, as seen by one who sends.
pub(crate) struct Network(OwnedFd);

impl Network {
    /// Moves this thread, with the threads and processes that it starts from now on, into a new
    /// network.
    pub(crate) fn enter() -> anyhow::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| match errno {
            Errno::EPERM => anyhow!("not permitted to make a network namespace: run this as root"),
            errno => anyhow!(errno).context("cannot make a network namespace"),
        })?;
        // Where the host forwards, as one with containers does, packets would go round and round here. A host that
        // does not let this be written does not forward either, as a rule.
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
        // Some lines: they fit the pipe. Should `ip` not read them, its exit code tells.
        let _ = stdin.write_all(commands.as_bytes());
    }
    let output = child.wait_with_output().context("cannot wait for `ip`")?;
    if !output.status.success() {
        bail!("`ip` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// An IPv4 header with nothing behind it (RFC 791). The kernel adds what it lacks: length, identifier
/// and checksum.
fn header(source: Ipv4Addr, destination: Ipv4Addr) -> [u8; 20] {
    /// Reserved for experiments (RFC 3692): no part of the kernel looks into it.
    const PROTOCOL: u8 = 253;
    let mut header = [0; 20];
    header[0] = 0x45;
    header[8] = 64;
    header[9] = PROTOCOL;
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    header
}
