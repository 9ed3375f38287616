//! Two connected veth interfaces in a network namespace of one thread. The kernel removes it when the thread and its
//! children have ended, in whatever way.

use std::{
    io::Write as _,
    net::UdpSocket,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, unshare};

/// The receiving interface.
pub(crate) const RECEIVER: &str = "wing1";

/// Unused address; a static neighbour entry puts it at the other end of the veth pair. Any port works.
const DESTINATION: &str = "10.9.0.2:9";

/// Without IPv6 addresses the kernel sends no packets of its own: all arriving packets are ours.
const SET_UP: &str = "\
link add wing0 address 02:00:00:00:00:01 type veth peer name wing1 address 02:00:00:00:00:02
link set wing0 addrgenmode none
link set wing1 addrgenmode none
link set wing1 up
link set wing0 up
address add 10.9.0.1/24 dev wing0
neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev wing0
";

/// Packets per burst; the receiver's queue holds more.
const BURST: usize = 32;

/// The network, entered by this thread and its later children.
pub(crate) struct Network(UdpSocket);

impl Network {
    pub(crate) fn enter() -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]).stdin(Stdio::piped());
        let mut ip = ip.spawn().expect("`ip`, which `cargo xtask setup` installs (iproute2)");
        ip.stdin.take().expect("piped").write_all(SET_UP.as_bytes()).expect("commands for `ip`");
        assert!(ip.wait().expect("`ip` ends").success(), "`ip` says above why it failed");
        Self(UdpSocket::bind("10.9.0.1:0").expect("a socket"))
    }

    /// Sends packets, some microseconds each.
    pub(crate) fn send(&self, packets: usize) {
        for packet in 0..packets {
            self.0.send_to(b"wingbeat", DESTINATION).expect("sent");
            if packet % BURST == BURST - 1 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// A command that sends packets inside the network.
pub(crate) fn sender(packets: u32) -> [String; 3] {
    let (host, port) = DESTINATION.split_once(':').expect("host and port");
    let script = format!("for i in $(seq {packets}); do echo x > /dev/udp/{host}/{port}; done");
    ["bash".to_owned(), "-c".to_owned(), script]
}
