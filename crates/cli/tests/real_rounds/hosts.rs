//! Hosts that are network namespaces: each with an address of its own, joined by a bridge, and each with a second line
//! to the desk at which the test sits.
//!
//! The test is run again in namespaces of its own, for users, mounts, processes and the network. Whatever it makes in
//! them the kernel takes away with the test's last process, also after a panic, and nobody else ever sees it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use testkit::{Ends, ended_within};

/// Says, in the process that has them, that the namespaces are there; and names the file that comes of that.
const INSIDE: &str = "REFLOAT_TEST_HOSTS";

/// How long a test may take that is run again: each of its waits is shorter.
const ENDS_WITHIN: Duration = Duration::from_secs(600);

/// Some hosts.
pub(crate) struct Hosts(usize);

impl Hosts {
    /// `count` hosts, or nothing if the test `name` was run elsewhere.
    #[track_caller]
    pub(crate) fn of(count: usize, name: &str) -> Option<Self> {
        let Some(note) = std::env::var_os(INSIDE) else {
            run_inside(name);
            return None;
        };
        std::fs::write(note, "").unwrap();
        run("mount -t tmpfs hosts /run && mkdir /run/netns && ip link set lo up");
        run("ip link add hub type bridge && ip addr add 10.77.0.254/24 dev hub && ip link set hub up");
        for host in 0..count {
            let (at_hub, at_desk) = (host + 1, host);
            run(&format!("ip netns add host{host} && ip -n host{host} link set lo up"));
            run(&format!("ip link add to{host} type veth peer name net netns host{host}"));
            run(&format!("ip link set to{host} master hub up && ip -n host{host} link set net up"));
            run(&format!("ip -n host{host} addr add 10.77.0.{at_hub}/24 dev net"));
            run(&format!("ip link add desk{host} type veth peer name desk netns host{host}"));
            run(&format!("ip addr add 10.78.{at_desk}.1/24 dev desk{host} && ip link set desk{host} up"));
            run(&format!("ip -n host{host} addr add 10.78.{at_desk}.2/24 dev desk"));
            run(&format!("ip -n host{host} link set desk up"));
        }
        Some(Self(count))
    }

    pub(crate) fn all(&self) -> std::ops::Range<usize> {
        0..self.0
    }

    /// `program`, on a host.
    pub(crate) fn command(&self, host: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/host{host}")).arg(program);
        command
    }

    /// The others do not reach it any more, and it does not reach them.
    pub(crate) fn cut_off(&self, host: usize) {
        run(&format!("ip link set to{host} down"));
    }

    /// What it sends to the others gets lost, and what they send arrives.
    pub(crate) fn mute(&self, host: usize) {
        let others = self.all().filter(|other| *other != host).map(at_hub).chain([test_at_hub(0).ip()]);
        others.for_each(|other| mislead(&format!("-n host{host}"), other, "net"));
    }

    /// What the others send to it gets lost, and what it sends arrives.
    pub(crate) fn deafen(&self, host: usize) {
        for other in self.all().filter(|other| *other != host) {
            mislead(&format!("-n host{other}"), at_hub(host), "net");
        }
        mislead("", at_hub(host), "hub");
    }

    /// Everything arrives again.
    pub(crate) fn heal(&self, host: usize) {
        run(&format!("ip link set to{host} up"));
        for other in self.all() {
            run(&format!("ip -n host{other} neigh flush dev net nud permanent"));
        }
        run("ip neigh flush dev hub nud permanent");
    }
}

/// What is sent to `address` from there goes to a card that nobody has.
fn mislead(from: &str, address: IpAddr, device: &str) {
    run(&format!("ip {from} neigh replace {address} lladdr 02:00:00:00:00:fe nud permanent dev {device}"));
}

/// Where the other hosts find it.
pub(crate) fn at_hub(host: usize) -> IpAddr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(host + 1).unwrap()).into()
}

/// Where the test finds it, always.
pub(crate) fn at_desk(host: usize) -> IpAddr {
    Ipv4Addr::new(10, 78, u8::try_from(host).unwrap(), 2).into()
}

/// Where hosts find what runs beside the test, as long as they are not cut off.
pub(crate) fn test_at_hub(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, 254], port))
}

/// Where this host finds it by its second line.
pub(crate) fn test_at_desk(host: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 78, u8::try_from(host).unwrap(), 1], port))
}

#[track_caller]
fn run_inside(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("inside");
    let mut unshare = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, &note)
        .spawn()
        .expect("unshare, of util-linux, is there: apt-get install util-linux");
    // Killed, it takes everything with it that was started there.
    let Some(status) = ended_within(&mut unshare, ENDS_WITHIN) else { panic!("{name} does not end") };
    assert!(
        status.success(),
        "{name}, run on hosts of its own: {status} (are namespaces for users and networks allowed on this machine, \
         with bridges and veth, and is there `ip`: apt-get install iproute2?)"
    );
    assert!(note.exists(), "{name} was not run on hosts of its own: is there a test that is called so?");
}

#[track_caller]
fn run(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output_in_time().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
