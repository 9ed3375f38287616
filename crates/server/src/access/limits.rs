//! Rate limits of failed sign-ins, by address and by account: token buckets.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Bucket size, and refill time of one token.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u32,
    refill: Duration,
}

/// Failed sign-ins per address, which a team may share.
const BY_ADDRESS: Rate = Rate { burst: 20, refill: Duration::from_secs(15) };
/// Failed sign-ins per email address, from anywhere.
const BY_ACCOUNT: Rate = Rate { burst: 10, refill: Duration::from_secs(60) };

/// Maximum number of buckets. Beyond that, full ones are dropped first, then the fullest.
const BUCKETS_MAX: usize = 10_000;

/// Recent failed sign-ins.
#[derive(Debug, Default)]
pub struct SignInLimits {
    addresses: Mutex<Buckets<IpAddr>>,
    accounts: Mutex<Buckets<String>>,
}

/// Rate limit exceeded; time until the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany(pub Duration);

#[derive(Debug)]
struct Buckets<K>(HashMap<K, Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl SignInLimits {
    /// Takes a token from both buckets. [`SignInLimits::succeeded`] returns them.
    pub fn attempt(&self, address: IpAddr, account: &str, now: Instant) -> Result<(), TooMany> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.take(network(address), BY_ADDRESS, now)?;
        accounts.take(account.to_lowercase(), BY_ACCOUNT, now)
    }

    /// Returns the tokens of an attempt.
    pub fn succeeded(&self, address: IpAddr, account: &str, now: Instant) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.give_back(&network(address), BY_ADDRESS, now);
        accounts.give_back(&account.to_lowercase(), BY_ACCOUNT, now);
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

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn take(&mut self, key: K, rate: Rate, now: Instant) -> Result<(), TooMany> {
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

    fn give_back(&mut self, key: &K, rate: Rate, now: Instant) {
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

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Number of attempts allowed before the first refusal.
    fn passed(limits: &SignInLimits, address: IpAddr, account: &str, now: Instant) -> usize {
        (0..1_000).take_while(|_| limits.attempt(address, account, now).is_ok()).count()
    }

    #[test]
    fn an_account_is_guarded_from_everywhere() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        assert_eq!(passed(&limits, address("10.0.0.1"), "ada@example.org", now), 10);
        assert_eq!(passed(&limits, address("10.0.0.2"), "Ada@example.org", now), 0);
        assert_eq!(passed(&limits, address("10.0.0.2"), "bob@example.org", now), 10);
        let later = now + Duration::from_secs(120);
        assert_eq!(passed(&limits, address("10.0.0.3"), "ada@example.org", later), 2);
    }

    #[test]
    fn an_address_is_guarded_for_all_accounts() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        let tries = |from: &str| {
            let all = (0..100).map(|n| limits.attempt(address(from), &format!("{n}@x"), now));
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
        for _ in 0..100 {
            limits.attempt(address("10.0.0.1"), "ada@example.org", now).expect("passes");
            limits.succeeded(address("10.0.0.1"), "ada@example.org", now);
        }
    }

    #[test]
    fn memory_is_bounded_and_the_emptiest_stay() {
        let (limits, now) = (SignInLimits::default(), Instant::now());
        assert_eq!(passed(&limits, address("10.0.0.1"), "ada@example.org", now), 10);
        for n in 0..50_000_u32 {
            let from = IpAddr::V4((0x0b00_0000 + n).into());
            let _ = limits.attempt(from, &format!("{n}@example.org"), now);
        }
        assert!(limits.accounts.lock().expect("sound").0.len() <= BUCKETS_MAX);
        assert_eq!(passed(&limits, address("10.0.0.9"), "ada@example.org", now), 0);
    }
}
