//! Entry point for a fuzz target (`fuzz/` at the root), which sees only public items. Behind the feature
//! `fuzzing`, and not part of the API.

use crate::pods::read;

/// The kubelet's document `/pods`.
pub fn kubelet_pods(bytes: &[u8]) {
    let Ok(pods) = read(bytes) else { return };
    for pod in pods.values() {
        assert!(pod.container(None).container.is_none());
    }
}
