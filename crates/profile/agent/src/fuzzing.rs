//! A door for a fuzz target (`fuzz/` at the root), which sees only what is public. Behind the feature `fuzzing`, and no
//! part of the interface.

use crate::pods::read;

/// The kubelet's document `/pods`.
pub fn kubelet_pods(bytes: &[u8]) {
    let Ok(pods) = read(bytes) else { return };
    for pod in pods.values() {
        assert!(pod.container(None).container.is_none());
    }
}
