//! Loopback ports that stay ours until we let go of them.
//!
//! They lie below the range from which the kernel hands out ports by itself, and each is held
//! by a locked file, so that tests in other processes never take it between our choosing it
//! and etcd listening on it, nor while a stopped member waits to be started again.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::cache;

const RANGE: Range<u16> = 20_000..32_000;

/// Where this process looks next.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// One reserved port.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port on which nobody listens.
    pub fn reserve() -> Port {
        let locks = cache::root().join("ports");
        fs::create_dir_all(&locks).unwrap();
        for _ in RANGE {
            let number = next_candidate();
            let lock = File::create(locks.join(number.to_string())).unwrap();
            let free = lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
            if free {
                return Port { number, _lock: lock };
            }
        }
        panic!("no free port in {RANGE:?}");
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The loopback address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

/// Each process begins elsewhere, so that they seldom try the same ports.
fn next_candidate() -> u16 {
    let begin = std::process::id().wrapping_mul(397) % u32::from(RANGE.end - RANGE.start);
    let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let offset = (begin + step) % u32::from(RANGE.end - RANGE.start);
    RANGE.start + u16::try_from(offset).unwrap()
}

/// The two ports of a member.
#[derive(Debug)]
pub struct MemberPorts {
    /// Where clients connect.
    pub client: Port,
    /// Where its peers connect.
    pub peer: Port,
}

impl MemberPorts {
    /// Reserves both.
    pub fn reserve() -> MemberPorts {
        MemberPorts { client: Port::reserve(), peer: Port::reserve() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_twice() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve()).collect();

        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();

        assert_eq!(numbers.len(), 50);
    }
}
