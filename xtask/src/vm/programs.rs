//! Programs of this machine: those that make a guest, and those that the tests call inside of it.

use crate::setup::Tool;

/// What `cargo xtask vm` itself calls, beside [`emulator`](super::emulator).
pub(super) const NEEDED: &[Tool] = &[
    Tool { name: "busybox", package: "busybox-static", purpose: "the guest's first steps" },
    Tool { name: "mke2fs", package: "e2fsprogs", purpose: "the guest's disk" },
    Tool { name: "xz", package: "xz-utils", purpose: "the modules of kernels" },
    Tool { name: "dpkg-deb", package: "dpkg", purpose: "Debian's kernels" },
];

/// What tests and their scripts call, as far as it is installed. A test that misses one fails and
/// names it.
pub(super) const CALLED: &[&str] = &[
    // The shells, and what is called from within one.
    "sh", "bash", "busybox", "cat", "chmod", "cp", "date", "dd", "echo", "env", "false", "head",
    "id", "kill", "ln", "ls", "mkdir", "mkfifo", "mv", "nproc", "printf", "ps", "pgrep", "rm",
    "seq", "sleep", "stty", "sync", "tail", "taskset", "timeout", "touch", "true", "uname", "yes",
    // Namespaces, mounts, rights.
    "ip", "mount", "setcap", "setpriv", "setsid", "tc", "umount", "unshare",
    // Targets are compiled inside: paths in their debug information are those of the guest.
    "as", "cc", "gcc", "ld", "objcopy", "readelf", "strip",
];

/// Parts of the C compiler that are programs or files of their own. It knows where they are; a
/// compiler that has no such part answers with the bare name.
pub(super) const COMPILER_PROGRAMS: &[&str] = &["cc1", "collect2", "lto-wrapper"];

/// The same for files that it links.
pub(super) const COMPILER_FILES: &str = "
    crt1.o Scrt1.o rcrt1.o gcrt1.o crti.o crtn.o crtbegin.o crtbeginS.o crtbeginT.o crtend.o crtendS.o
    libgcc.a libgcc_eh.a libgcc_s.so libgcc_s.so.1 libc.so libc.so.6 libc.a libc_nonshared.a
    libm.so libm.so.6 libm.a libmvec.so libmvec.so.1 libpthread.a libdl.a librt.a
    liblto_plugin.so ld-linux-x86-64.so.2";

/// Files of `/etc` without which programs above do not do what they do here.
pub(super) const FILES: &str =
    "ld.so.cache ld.so.conf nsswitch.conf passwd group hosts localtime protocols services";

/// Packages of Debian with all of the above, for guests that cannot run the programs of this machine.
pub(super) const PACKAGES: &str = "
    bash binutils busybox-static coreutils dash gcc gzip iproute2 libc6-dev libcap2-bin login mount ncurses-bin
    netbase passwd procps sed util-linux";

/// Links that installing these packages makes, and where they lead.
pub(super) const LINKS: &[(&str, &str)] = &[("usr/bin/cc", "gcc")];

/// The users that tests know.
pub(super) const USERS: &str =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

/// Folders of headers that no test includes, below those that the compiler looks into.
pub(super) const HEADERS_LEFT_OUT: &[&str] = &["c++", "llvm", "clang", "python", "node", "X11"];
