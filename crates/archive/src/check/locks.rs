//! Checking the locks of an archive with the keys that somebody has.
//!
//! Whoever reads needs one lock that opens, so one that was changed may go unseen until the others are gone.

use super::finding::Finding;
use super::report::{Place, Report};
use crate::archive::Archive;
use crate::encryption::{Keyring, Lockbox, MAX_LOCKBOX_BYTES};
use crate::name::Name;

impl Archive {
    /// Tries the keys of `keyring` on all lockboxes, and adds to `report` which locks were changed. Neither a person nor a
    /// key service is asked, so of locks that take one no more is seen than that there are bytes in them.
    pub fn check_locks(&self, keyring: &Keyring, report: &mut Report) {
        for sign in &self.catalogue().signs {
            let Name::Lockbox(id) = sign.about else { continue };
            // What cannot be read, or does not open at all, was told when the objects were checked.
            let Ok(bytes) = self.read_small(&sign.about, MAX_LOCKBOX_BYTES as u64) else { continue };
            let Ok(lockbox) = Lockbox::parse(id, &bytes) else { continue };
            let place = Place::Object(sign.key.clone());
            let is_told =
                |(told, finding): &(Place, Finding)| *told == place && matches!(finding, Finding::Lockbox { .. });
            if report.others.iter().any(is_told) {
                continue;
            }
            let opens = keyring.opens_at_once(&lockbox);
            for lock in keyring.changed_locks(&lockbox) {
                let recipient = lock.recipient.clone();
                report.others.push((place.clone(), Finding::Lock { recipient, opens }));
            }
        }
    }
}
