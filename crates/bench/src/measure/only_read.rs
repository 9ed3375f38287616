//! Large maps that a program only reads, such as the ring of a load balancer: without this each sample
//! would have to load everything anew, for nothing.

use std::os::fd::AsFd as _;

use wingbeat_bpf::{
    live::{LiveMap, LiveMaps, Loader},
    spec::Linked,
};

/// Marks those of the maps that are too large to be put back, and that `linked` only reads. Where the
/// kernel does not say so, they are created anew between samples.
pub(super) fn mark(linked: &Linked, loader: &Loader, maps: &mut LiveMaps) {
    let large = maps.too_large_to_reset();
    let reads_only = |numbers: &[usize]| reads_only(linked, loader, maps, numbers).unwrap_or(false);
    let found: Vec<usize> = match large.as_slice() {
        [] => return,
        all if reads_only(all) => all.to_vec(),
        [_] => return,
        several => several.iter().copied().filter(|&number| reads_only(&[number])).collect(),
    };
    for number in found {
        maps.set_only_read(number);
    }
}

/// Whether the verifier takes the program with maps that it may only read. `None` if nobody can say.
fn reads_only(
    linked: &Linked,
    loader: &Loader,
    maps: &LiveMaps,
    numbers: &[usize],
) -> Option<bool> {
    let probes =
        numbers.iter().map(|&number| Some((number, maps.all()[number].read_only_probe().ok()?)));
    let probes: Vec<(usize, LiveMap)> = probes.collect::<Option<_>>()?;
    let mut descriptors = maps.descriptors();
    for (number, probe) in &probes {
        descriptors[*number] = probe.as_fd();
    }
    Some(loader.load_briefly(&linked.program, &linked.code, &descriptors).is_ok())
}
