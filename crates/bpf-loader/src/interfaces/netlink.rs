//! Netlink requests, and parsing of the replies (include/uapi/linux/netlink.h, Linux 6.18).

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

/// Lengths of `struct nlmsghdr` and `struct nlattr`, in bytes; the data after both is aligned to four.
const HEADER_LEN: usize = 16;
const ATTRIBUTE_LEN: usize = 4;
const ALIGNMENT: usize = 4;

/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;

/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// The upper bits of an attribute's type are flags about its encoding (`NLA_TYPE_MASK`).
const ATTRIBUTE_MASK: u16 = 0x3fff;

/// Buffer for a part of a reply, in bytes: the kernel's parts are at most half of it.
const PART_LEN: usize = 64 << 10;

/// Maximum number of parts of a reply, in case the end never comes.
const PARTS_MAX: usize = 1 << 16;

/// A message without its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

/// Dumps all objects of a kind.
pub(super) fn dump(kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    // Protocol 0 is NETLINK_ROUTE: routes, interfaces and filters.
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&kernel, &request(kind, body), SendFlags::empty())?;
    let mut part = vec![0; PART_LEN];
    let mut found = Vec::new();
    for _ in 0..PARTS_MAX {
        let (len, _) = recv(&kernel, part.as_mut_slice(), RecvFlags::empty())?;
        for message in messages(part.get(..len).unwrap_or(&[])) {
            match message.kind {
                DONE => return Ok(found),
                ERROR => return Err(error(&message.body)),
                _ => found.push(message),
            }
        }
    }
    Err(io::Error::other("the kernel's answer does not end"))
}

fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_LEN + body.len()).unwrap_or(u32::MAX);
    let (sequence, sender) = (1_u32, 0_u32);
    let mut request = len.to_ne_bytes().to_vec();
    request.extend([kind, DUMP].into_iter().flat_map(u16::to_ne_bytes));
    request.extend([sequence, sender].into_iter().flat_map(u32::to_ne_bytes));
    request.extend(body);
    request
}

/// The kernel returns a negative error number.
fn error(body: &[u8]) -> io::Error {
    let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    io::Error::from_raw_os_error(code.saturating_neg())
}

/// Messages in a part of a reply. Stops at a truncated one.
fn messages(mut part: &[u8]) -> impl Iterator<Item = Message> {
    std::iter::from_fn(move || {
        let len = part.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))? as usize;
        let kind = part.get(4..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let body = part.get(HEADER_LEN..len)?.to_vec();
        part = part.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some(Message { kind, body })
    })
}

/// An attribute of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u16,
    pub(super) value: &'a [u8],
}

impl Attribute<'_> {
    pub(super) fn number(&self) -> Option<u32> {
        self.value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    pub(super) fn text(&self) -> String {
        let text = self.value.split(|&byte| byte == 0).next().unwrap_or(&[]);
        String::from_utf8_lossy(text).into_owned()
    }
}

/// The attributes after an object, or nested in an attribute.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    std::iter::from_fn(move || {
        let len = bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let kind = bytes.get(2..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))?;
        let value = bytes.get(ATTRIBUTE_LEN..usize::from(len))?;
        bytes = bytes.get(usize::from(len).next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some(Attribute { kind: kind & ATTRIBUTE_MASK, value })
    })
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Serializes an attribute.
    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = (ATTRIBUTE_LEN + value.len()) as u16;
        let mut bytes: Vec<u8> = [len, kind].into_iter().flat_map(u16::to_ne_bytes).collect();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    #[test]
    fn attributes_follow_each_other() {
        let bytes = [attribute(3, b"lo\0"), attribute(1 << 15 | 43, &7_u32.to_ne_bytes())].concat();
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].kind, &*found[0].text()), (3, "lo"));
        assert_eq!((found[1].kind, found[1].number()), (43, Some(7)));
        assert_eq!(attributes(&bytes[..9]).count(), 1);
    }

    #[test]
    fn messages_follow_each_other() {
        let part = [request(16, &[1, 2, 3, 4]), request(3, &[])].concat();
        let found: Vec<_> = messages(&part).collect();
        assert_eq!(found[0], Message { kind: 16, body: vec![1, 2, 3, 4] });
        assert_eq!(found[1], Message { kind: DONE, body: Vec::new() });
        assert_eq!(found.len(), 2);
        assert_eq!(messages(&part[..18]).count(), 0);
        assert_eq!(error(&(-1_i32).to_ne_bytes()).raw_os_error(), Some(libc::EPERM));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            _ = messages(&bytes).count();
            _ = attributes(&bytes).count();
        }
    }
}
