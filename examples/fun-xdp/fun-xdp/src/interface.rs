//! A network interface, found by its name.

use std::os::fd::OwnedFd;

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType, netdevice, socket},
};

/// An interface that existed when it was looked up.
pub struct Interface {
    name: String,
    index: u32,
    /// Any socket: it pins the network namespace in which names and indices are valid.
    socket: OwnedFd,
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// It does not exist.
    #[error("there is no network interface `{0}`: `ip link` lists them")]
    Absent(String),
    /// The kernel rejects the lookup itself.
    #[error("cannot look for the network interface `{0}`")]
    Search(String, #[source] Errno),
}

impl Interface {
    /// Finds an interface.
    ///
    /// # Errors
    ///
    /// [`InterfaceError::Absent`] if none has this name.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let failed = |errno| InterfaceError::Search(name.into(), errno);
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(failed)?;
        let index = netdevice::name_to_index(&socket, name).map_err(|errno| match errno {
            Errno::NODEV => InterfaceError::Absent(name.into()),
            errno => failed(errno),
        })?;
        Ok(Self { name: name.into(), index, socket })
    }

    /// The name that it was looked up by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its index, which does not change when it is renamed.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether it still exists: when an interface goes, the kernel detaches its programs
    /// without notice.
    pub fn exists(&self) -> bool {
        netdevice::index_to_name(&self.socket, self.index) != Err(Errno::NODEV)
    }
}
