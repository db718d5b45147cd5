//! W1, the standard work: 200,000 keys of 1 KiB, put; the same keys put again, and 500,000 more operations, of which 78 of
//! 100 update a key, 10 delete one, 10 put one that may be gone, and 2 are transactions of three puts and a deletion.
//!
//! A value is text that all share, with thirteen runs of eight random bytes in hexadecimal: 104 random bytes in
//! 1,024.

use etcd_data::LeaseId;
use testkit::random::Random;

use super::history::{Change, Ledger};

/// The standard work, or one like it of another size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct W1 {
    /// Different keys.
    pub(crate) keys: u64,
    /// Operations after every key was put twice.
    pub(crate) operations: u64,
    /// Which of all possible ones.
    pub(crate) seed: u64,
}

impl W1 {
    /// As it is defined.
    pub(crate) const STANDARD: Self = Self { keys: 200_000, operations: 500_000, seed: 1 };
    /// How fast it goes by the clock in it.
    pub(crate) const REVISIONS_PER_SECOND: i64 = 1000;
    /// When it begins: 2026-11-21T09:30:00Z, in microseconds.
    pub(crate) const BEGIN: i64 = 1_795_253_400_000_000;

    /// The last revision of the full: all keys were put once.
    pub(crate) fn full_revision(&self) -> i64 {
        self.keys as i64 + 1
    }

    /// Shows `each` all changes, those of the full first.
    pub(crate) fn play(&self, each: impl FnMut(Change<'_>)) {
        let mut ledger = Ledger::new(each);
        let mut random = Random(self.seed);
        let mut values = Random(self.seed ^ 0xf00d);
        let mut value = Vec::new();
        let mut main = 1;
        let mut now = || {
            main += 1;
            Self::BEGIN + main * 1_000_000 / Self::REVISIONS_PER_SECOND
        };
        for number in (0..self.keys).chain(0..self.keys) {
            fill(&mut values, &mut value, VALUE_BYTES);
            ledger.begin();
            ledger.put(now(), &key(number), &value, LeaseId(0));
        }
        let mut changes = Vec::with_capacity(4);
        for _ in 0..self.operations {
            let number = random.below(self.keys);
            changes.clear();
            match random.below(100) {
                0..2 => {
                    let distinct = |index| (number + index * (self.keys / 5).max(1)) % self.keys.max(1);
                    changes.extend((0..3).map(|index| (distinct(index), false)));
                    changes.push((distinct(3), true));
                }
                2..12 => changes.push((number, true)),
                _ => changes.push((number, false)),
            }
            changes.retain(|&(number, deletes)| !deletes || ledger.is_alive(&key(number)));
            if changes.is_empty() {
                continue;
            }
            ledger.begin();
            let micros = now();
            for &(number, deletes) in &changes {
                if deletes {
                    ledger.delete(micros, &key(number));
                } else {
                    fill(&mut values, &mut value, VALUE_BYTES);
                    ledger.put(micros, &key(number), &value, LeaseId(0));
                }
            }
        }
    }
}

/// The key with this number.
pub(crate) fn key(number: u64) -> Vec<u8> {
    const KINDS: [&str; 5] = ["pods", "configmaps", "endpointslices", "events", "leases"];
    let kind = KINDS.get((number % 5) as usize).unwrap_or(&"pods");
    format!("/registry/{kind}/namespace-{:03}/object-{number:08}", number / 5 % 200).into_bytes()
}

/// What a value has.
const VALUE_BYTES: usize = 1024;

/// A value of `len` bytes: shared text with thirteen runs of sixteen hexadecimal digits.
pub(crate) fn fill(random: &mut Random, value: &mut Vec<u8>, len: usize) {
    fill_with_runs(random, value, len, (13, 16));
}

/// The same with so many runs of so many digits.
pub(crate) fn fill_with_runs(
    random: &mut Random,
    value: &mut Vec<u8>,
    len: usize,
    (runs, digits_each): (usize, usize),
) {
    const TEXT: &[u8] = b"k8s\0\n\r\n\x02v1\x12\x07Service metadata name namespace uid resourceVersion creationTimestamp \
        labels app.kubernetes.io/name app.kubernetes.io/instance managedFields manager kube-controller-manager operation \
        Update apiVersion v1 fieldsType FieldsV1 status conditions type Ready status True reason KubeletReady message \
        kubelet is posting ready status lastHeartbeatTime lastTransitionTime observedGeneration ";
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    value.clear();
    while value.len() < len {
        value.extend_from_slice(TEXT.get(..TEXT.len().min(len - value.len())).unwrap_or(TEXT));
    }
    for run in value.chunks_exact_mut(len / runs) {
        let mut digits = random.number();
        for byte in run.iter_mut().skip(20).take(digits_each) {
            *byte = DIGITS.get((digits & 15) as usize).copied().unwrap_or(b'0');
            digits >>= 4;
        }
    }
}
