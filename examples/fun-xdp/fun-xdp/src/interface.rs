//! A network interface, found by its name.

use std::os::fd::OwnedFd;

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType, netdevice, socket},
};

/// An interface that was there when it was looked for.
pub struct Interface {
    name: String,
    index: u32,
    /// Any socket: it stands for the network namespace, in which names and indices have a meaning.
    socket: OwnedFd,
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// It is not there.
    #[error("there is no network interface `{0}`: `ip link` lists those that there are")]
    Absent(String),
    /// The kernel does not even look.
    #[error("cannot look for the network interface `{0}`")]
    Search(String, #[source] Errno),
}

impl Interface {
    /// Finds an interface.
    ///
    /// # Errors
    ///
    /// [`InterfaceError::Absent`] when none has this name.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let failed = |errno| InterfaceError::Search(name.into(), errno);
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(failed)?;
        let index = netdevice::name_to_index(&socket, name).map_err(|errno| match errno {
            Errno::NODEV => InterfaceError::Absent(name.into()),
            errno => failed(errno),
        })?;
        Ok(Self { name: name.into(), index, socket })
    }

    /// The name that it was found by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, which stays the same when it is renamed.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether it still is there: when an interface goes, the kernel detaches its programs and tells
    /// nobody.
    pub fn exists(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index) != Err(Errno::NODEV)
    }
}
