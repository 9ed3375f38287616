//! Rate limits of failed sign-ins: token buckets.
//!
//! A bucket of each email address alone would let any stranger lock its owner out. So one network spends its own bucket
//! of an address, the bucket of the address is so large that one network never empties it, and a browser that signed in
//! before has a bucket apart from all others (OWASP: device cookies).

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::secrets::digest;
use crate::database::Digest;

/// Bucket size, and refill time of one token.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u32,
    refill: Duration,
}

/// Failed sign-ins per network, which a team may share.
const BY_NETWORK: Rate = Rate { burst: 20, refill: Duration::from_secs(15) };
/// Failed sign-ins of an email address from one network.
const BY_ACCOUNT_THERE: Rate = Rate { burst: 10, refill: Duration::from_secs(60) };
/// Failed sign-ins of an email address from anywhere: more than five networks can spend together.
const BY_ACCOUNT: Rate = Rate { burst: 100, refill: Duration::from_secs(10) };
/// Failed sign-ins of a browser that signed in before, or is signed in.
const BY_BROWSER: Rate = Rate { burst: 10, refill: Duration::from_secs(60) };

/// Maximum number of buckets of a kind. Beyond that, full ones are dropped first, then the fullest.
const BUCKETS_MAX: usize = 10_000;

/// Recent failed sign-ins.
#[derive(Debug, Default)]
pub struct SignInLimits(Mutex<Buckets>);

/// Who tries to sign in.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub address: IpAddr,
    /// The email address, however long.
    pub account: &'a str,
    /// Digest of what proves that the browser signed in as this account before.
    pub browser: Option<Digest>,
}

/// Rate limit exceeded; time until the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany(pub Duration);

#[derive(Debug, Default)]
struct Buckets {
    networks: Kind,
    accounts_there: Kind,
    accounts: Kind,
    browsers: Kind,
}

/// Buckets by digests, so that each takes the same memory.
#[derive(Debug, Default)]
struct Kind(HashMap<Digest, Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl SignInLimits {
    /// Takes a token from each bucket of the attempt. [`SignInLimits::succeeded`] returns them.
    pub fn attempt(&self, attempt: Attempt<'_>, now: Instant) -> Result<(), TooMany> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.of(attempt).try_for_each(|(kind, key, rate)| kind.take(key, rate, now))
    }

    /// Returns the tokens of an attempt.
    pub fn succeeded(&self, attempt: Attempt<'_>, now: Instant) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.of(attempt).for_each(|(kind, key, rate)| kind.give_back(&key, rate, now));
    }
}

impl Buckets {
    /// The buckets of an attempt, smallest scope first: an attempt refused there does not count for others.
    fn of(&mut self, attempt: Attempt<'_>) -> impl Iterator<Item = (&mut Kind, Digest, Rate)> {
        let Attempt { address, account, browser } = attempt;
        let account = account.to_lowercase();
        let network = network(address);
        let known = browser.map(|browser| (&mut self.browsers, browser, BY_BROWSER));
        let others = [
            (&mut self.networks, digest(&network.to_string()), BY_NETWORK),
            (&mut self.accounts_there, digest(&format!("{network} {account}")), BY_ACCOUNT_THERE),
            (&mut self.accounts, digest(&account), BY_ACCOUNT),
        ];
        let others = others.into_iter().filter(move |_| browser.is_none());
        known.into_iter().chain(others)
    }
}

/// The owner of one IPv6 address has its whole network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl Kind {
    fn take(&mut self, key: Digest, rate: Rate, now: Instant) -> Result<(), TooMany> {
        self.make_room(rate, now);
        let full = Bucket { tokens: f64::from(rate.burst), at: now };
        let bucket = self.0.entry(key).or_insert(full);
        bucket.fill(rate, now);
        if bucket.tokens < 1.0 {
            return Err(TooMany(rate.refill.mul_f64(1.0 - bucket.tokens)));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    fn give_back(&mut self, key: &Digest, rate: Rate, now: Instant) {
        if let Some(bucket) = self.0.get_mut(key) {
            bucket.fill(rate, now);
            bucket.tokens = (bucket.tokens + 1.0).min(f64::from(rate.burst));
        }
    }

    fn make_room(&mut self, rate: Rate, now: Instant) {
        if self.0.len() < BUCKETS_MAX {
            return;
        }
        self.0.values_mut().for_each(|bucket| bucket.fill(rate, now));
        self.0.retain(|_, bucket| bucket.tokens < f64::from(rate.burst));
        if self.0.len() < BUCKETS_MAX {
            return;
        }
        let mut levels: Vec<f64> = self.0.values().map(|bucket| bucket.tokens).collect();
        let middle = levels.len() / 2;
        let (_, &mut median, _) = levels.select_nth_unstable_by(middle, f64::total_cmp);
        self.0.retain(|_, bucket| bucket.tokens < median);
    }
}

impl Bucket {
    fn fill(&mut self, rate: Rate, now: Instant) {
        let gained = now.saturating_duration_since(self.at).div_duration_f64(rate.refill);
        self.tokens = (self.tokens + gained).min(f64::from(rate.burst));
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from<'a>(address: &str, account: &'a str) -> Attempt<'a> {
        Attempt { address: address.parse().expect("an address"), account, browser: None }
    }

    /// Number of attempts allowed before the first refusal.
    fn passed(limits: &SignInLimits, attempt: Attempt<'_>, now: Instant) -> usize {
        (0..1_000).take_while(|_| limits.attempt(attempt, now).is_ok()).count()
    }

    #[test]
    fn a_stranger_cannot_lock_an_owner_out() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        assert_eq!(passed(&limits, from("10.0.0.1", "ada@example.org"), now), 10);
        assert_eq!(passed(&limits, from("10.0.0.1", "Ada@example.org"), now), 0);
        assert_eq!(passed(&limits, from("10.0.0.2", "Ada@example.org"), now), 10);
        let later = now + Duration::from_secs(120);
        assert_eq!(passed(&limits, from("10.0.0.1", "ada@example.org"), later), 2);
    }

    #[test]
    fn an_account_is_guarded_from_everywhere_but_known_browsers() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        let from_all = |now| {
            let all = (0..30)
                .map(|n| passed(&limits, from(&format!("10.0.0.{n}"), "ada@example.org"), now));
            all.sum::<usize>()
        };
        assert_eq!(from_all(now), 100);
        let known = Attempt { browser: Some([1; 32]), ..from("10.0.0.1", "ada@example.org") };
        assert_eq!(passed(&limits, known, now), 10);
        assert_eq!(passed(&limits, Attempt { browser: Some([2; 32]), ..known }, now), 10);
        assert_eq!(from_all(now + Duration::from_secs(60)), 6);
    }

    #[test]
    fn a_network_is_guarded_for_all_accounts() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        let tries = |address: &str| {
            let all = (0..100).map(|n| limits.attempt(from(address, &format!("{n}@x")), now));
            all.filter(Result::is_ok).count()
        };
        assert_eq!(tries("10.0.0.1"), 20);
        assert_eq!(tries("2001:db8::1"), 20);
        assert_eq!(tries("2001:db8::2"), 0);
        assert_eq!(tries("::ffff:10.0.0.1"), 0);
    }

    #[test]
    fn success_costs_nothing() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        let known = Attempt { browser: Some([1; 32]), ..from("10.0.0.1", "ada@example.org") };
        for _ in 0..200 {
            for attempt in [from("10.0.0.1", "ada@example.org"), known] {
                limits.attempt(attempt, now).expect("passes");
                limits.succeeded(attempt, now);
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_the_emptiest_stay() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        let ada = from("10.0.0.1", "ada@example.org");
        assert_eq!(passed(&limits, ada, now), 10);
        for n in 0..50_000_u32 {
            let address = IpAddr::V4((0x0b00_0000 + n).into());
            let (account, browser) = (format!("{n}@example.org"), digest(&n.to_string()));
            let stranger = Attempt { address, account: &account, browser: None };
            let _ = limits.attempt(stranger, now);
            let _ = limits.attempt(Attempt { browser: Some(browser), ..stranger }, now);
        }
        let buckets = limits.0.lock().expect("sound");
        for kind in
            [&buckets.networks, &buckets.accounts_there, &buckets.accounts, &buckets.browsers]
        {
            assert!((1..=BUCKETS_MAX).contains(&kind.0.len()), "{}", kind.0.len());
        }
        drop(buckets);
        assert_eq!(passed(&limits, ada, now), 0);
    }
}
