//! Neighbours that come and go, as on a machine that several jobs share: on each CPU a thread that is busy
//! for a while and rests for a while. So two runs of the same program may differ by a factor of two.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use wingbeat_stats::random::Random;

/// How long a neighbour is busy or rests at most, in seconds.
const SPELL_MAX_S: f64 = 4.0;

/// How soon it ends.
const NOTICE: Duration = Duration::from_millis(20);

/// They end when this is dropped.
#[derive(Debug)]
pub(super) struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Neighbours {
    /// One for each CPU, on whichever the kernel puts it.
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..count).map(|number| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || live(number, &stop))
        });
        Self { threads: threads.collect(), stop }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does not panic, and if it did there would be nothing to do.
            let _ = thread.join();
        }
    }
}

fn live(number: usize, stop: &AtomicBool) {
    let mut random = Random::new(number as u64);
    let is_stopped = || stop.load(Ordering::Relaxed);
    let mut is_busy = number.is_multiple_of(2);
    while !is_stopped() {
        let until = Instant::now() + Duration::from_secs_f64(SPELL_MAX_S * random.unit());
        while Instant::now() < until && !is_stopped() {
            if is_busy {
                std::hint::spin_loop();
            } else {
                thread::sleep(NOTICE);
            }
        }
        is_busy = !is_busy;
    }
}
