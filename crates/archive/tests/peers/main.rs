//! Archives that etcdbrctl, K3s and OpenShift wrote, sound and damaged, against what the live servers said.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod damaged;
mod etcdbrctl;
mod events;
mod place;
mod snapshots;
