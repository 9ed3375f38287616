//! Restricts the C library to its built-in name services when statically linked.
//!
//! glibc loads others from libraries named in `/etc/nsswitch.conf`. Those belong to the system's glibc, which differs
//! from the one in the binary: with both in one process it crashes, or finds nothing.

/// Database, and the services built into glibc (2.34 and newer).
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
const BUILT_IN: [(&std::ffi::CStr, &std::ffi::CStr); 5] = [
    (c"group", c"files"),
    (c"hosts", c"files dns"),
    (c"passwd", c"files"),
    (c"protocols", c"files"),
    (c"services", c"files"),
];

/// Call before any lookup, and before starting threads.
pub(crate) fn keep_built_in() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        // SAFETY: as declared in glibc's `nss.h`.
        unsafe extern "C" {
            fn __nss_configure_lookup(
                database: *const std::ffi::c_char,
                services: *const std::ffi::c_char,
            ) -> std::ffi::c_int;
        }
        for (database, services) in BUILT_IN {
            // SAFETY: both are NUL-terminated and 'static; there is no other thread yet. It only fails for databases
            // that glibc does not know.
            unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}
