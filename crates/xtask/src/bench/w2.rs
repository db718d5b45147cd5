//! W2, Kubernetes' own churn: 5,000 nodes for an hour, about two million revisions.
//!
//! | what                | how often                                         | what a change changes                              |
//! |---------------------|---------------------------------------------------|----------------------------------------------------|
//! | node leases         | each 10 s and up to 4 % more, as kubelets jitter  | renew time in microseconds, time of managed fields |
//! | node status         | each 5 min and up to 4 % more                     | four heartbeats, time of managed fields            |
//! | pods                | 5 a second begin, and each ends 10 min later      | bound, starting, running, ready, ending, gone      |
//! | endpoint slices     | 5 a second, of 500 with up to 60 endpoints        | one endpoint ready or not, generation              |
//! | events              | 4 for each pod that begins or ends, 1 h lease     | new, of which a quarter is counted up twice        |
//!
//! Objects are protobuf as the API server writes them, field by field, empty strings included. What is alike in
//! reality is alike here, and what differs differs: names with random endings, uids, image digests, addresses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use etcd_data::LeaseId;
use testkit::random::{Random, mix};

use super::history::{Change, Ledger};

/// An hour of a cluster, or less.
#[derive(Debug, Clone, Copy)]
pub(crate) struct W2 {
    /// Nodes.
    pub(crate) nodes: u64,
    /// Seconds that are written.
    pub(crate) seconds: i64,
    /// Which of all possible ones.
    pub(crate) seed: u64,
}

/// What happens next, and to which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Renewal(u64),
    Heartbeat(u64),
    PodBegins,
    Pod { pod: u64, step: u8 },
    Slice,
    EventAgain { event: u64, count: u64 },
}

/// When it begins: 2026-11-21T09:30:00Z.
const BEGIN: i64 = 1_795_253_400_000_000;
const SECOND: i64 = 1_000_000;
const SLICES: u64 = 500;

impl W2 {
    /// As it is defined.
    pub(crate) const STANDARD: Self = Self { nodes: 5000, seconds: 3600, seed: 2 };

    /// Shows `each` all changes. The first ones make what there is before the hour begins: [`W2::begins`] tells where
    /// that ends.
    pub(crate) fn play(&self, each: impl FnMut(Change<'_>)) {
        let mut play =
            Play { random: Random(self.seed), ledger: Ledger::new(each), next: BinaryHeap::new(), pods: 0, events: 0 };
        for node in 0..self.nodes {
            play.lease(BEGIN - SECOND, node);
            play.node(BEGIN - SECOND, node);
            let offsets = [play.random.below(10 * SECOND as u64), play.random.below(300 * SECOND as u64)];
            play.next.push(Reverse((BEGIN + offsets[0] as i64, Happening::Renewal(node))));
            play.next.push(Reverse((BEGIN + offsets[1] as i64, Happening::Heartbeat(node))));
        }
        for slice in 0..SLICES {
            play.slice(BEGIN - SECOND, slice);
        }
        play.next.push(Reverse((BEGIN, Happening::PodBegins)));
        play.next.push(Reverse((BEGIN, Happening::Slice)));
        while let Some(Reverse((micros, happening))) = play.next.pop() {
            if micros >= BEGIN + self.seconds * SECOND {
                break;
            }
            play.happen(micros, happening, self.nodes);
        }
    }

    /// The last revision before the hour.
    pub(crate) fn begins(&self) -> i64 {
        1 + 2 * self.nodes as i64 + SLICES as i64
    }
}

struct Play<E> {
    random: Random,
    ledger: Ledger<E>,
    next: BinaryHeap<Reverse<(i64, Happening)>>,
    pods: u64,
    events: u64,
}

impl<E: FnMut(Change<'_>)> Play<E> {
    fn happen(&mut self, now: i64, happening: Happening, nodes: u64) {
        match happening {
            Happening::Renewal(node) => {
                self.lease(now, node);
                self.later(now + 10 * SECOND, SECOND * 2 / 5, happening);
            }
            Happening::Heartbeat(node) => {
                self.node(now, node);
                self.later(now + 300 * SECOND, 12 * SECOND, happening);
            }
            Happening::PodBegins => {
                self.pods += 1;
                self.happen(now, Happening::Pod { pod: self.pods, step: 0 }, nodes);
                self.later(now + SECOND / 10, SECOND / 5, happening);
            }
            Happening::Pod { pod, step } => self.pod(now, pod, step, nodes),
            Happening::Slice => {
                let slice = self.random.below(SLICES);
                self.slice(now, slice);
                self.later(now + SECOND / 10, SECOND / 5, happening);
            }
            Happening::EventAgain { event, count } => self.event(now, event, count),
        }
    }

    fn later(&mut self, at: i64, jitter: i64, happening: Happening) {
        let jitter = self.random.below(jitter as u64) as i64;
        self.next.push(Reverse((at + jitter, happening)));
    }

    fn put(&mut self, now: i64, key: &str, object: &Message, lease: LeaseId) {
        self.ledger.begin();
        self.ledger.put(now, key.as_bytes(), &object.0, lease);
    }

    fn lease(&mut self, now: i64, node: u64) {
        let name = node_name(node);
        let meta =
            Meta { name: &name, namespace: "kube-node-lease", created: created(node), ..Meta::new("kubelet", now) };
        let fields = r#"{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"UID\"}":{}}},"f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}"#;
        let owner = Message::new().text(1, "Node").text(3, &name).text(4, &uid(mix(node))).text(5, "v1");
        let spec = Message::new()
            .text(1, &name)
            .number(2, 40)
            .message(4, Message::new().number(1, (now / SECOND) as u64).number(2, (now % SECOND * 1000) as u64));
        let meta = meta.message(mix(node ^ 0x1ea5e), Some(owner), &fields.replace("UID", &uid(mix(node))));
        let object = object("coordination.k8s.io/v1", "Lease", meta, &[(2, spec)]);
        self.put(now, &format!("/registry/leases/kube-node-lease/{name}"), &object, LeaseId(0));
    }

    fn node(&mut self, now: i64, node: u64) {
        let name = node_name(node);
        let meta = Meta { name: &name, created: created(node), ..Meta::new("kubelet", now) };
        let kinds = [
            ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("Ready", "KubeletReady", "kubelet is posting ready status"),
        ];
        let mut status = Message::new();
        for (resource, amount) in
            [("cpu", "16"), ("ephemeral-storage", "203070420Ki"), ("memory", "65843132Ki"), ("pods", "110")]
        {
            status = status.message(1, Message::new().text(1, resource).message(2, Message::new().text(1, amount)));
        }
        for (kind, reason, text) in kinds {
            let condition = Message::new()
                .text(1, kind)
                .text(2, if kind == "Ready" { "True" } else { "False" })
                .message(3, Message::new().number(1, (now / SECOND) as u64))
                .message(4, Message::new().number(1, (created(node) + 10) as u64))
                .text(5, reason)
                .text(6, text);
            status = status.message(4, condition);
        }
        status = status.message(5, Message::new().text(1, "InternalIP").text(2, &address(node)));
        status = status.message(5, Message::new().text(1, "Hostname").text(2, &name));
        let info = Message::new()
            .text(1, &hex(mix(node ^ 1), 16).repeat(2))
            .text(2, &uid(mix(node ^ 2)))
            .text(3, &uid(mix(node ^ 3)))
            .text(4, "6.1.0-28-amd64")
            .text(5, "Garden Linux 1592.4")
            .text(6, "containerd://1.7.24")
            .text(7, "v1.33.4")
            .text(8, "v1.33.4")
            .text(9, "linux")
            .text(10, "amd64");
        status = status.message(7, info);
        for image in 0..25 {
            let digest = hex(mix(image * 4 + node % 8), 16).repeat(4);
            let names = Message::new()
                .text(1, &format!("registry.example.org/team-{image}/component-{image}@sha256:{digest}"))
                .text(1, &format!("registry.example.org/team-{image}/component-{image}:v1.{image}.{}", node % 8))
                .number(2, 20_000_000 + mix(image) % 50_000_000);
            status = status.message(8, names);
        }
        let fields = r#"{"f:status":{"f:conditions":{"k:{\"type\":\"DiskPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"MemoryPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"PIDPressure\"}":{"f:lastHeartbeatTime":{}},"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{}}},"f:images":{}}}"#;
        let spec = Message::new()
            .text(1, &format!("100.64.{}.0/24", node % 256))
            .text(3, &format!("aws:///eu-west-1a/i-{}", hex(mix(node), 16)));
        let object = object("v1", "Node", meta.message(mix(node), None, fields), &[(2, spec), (3, status)]);
        self.put(now, &format!("/registry/minions/{name}"), &object, LeaseId(0));
    }

    fn pod(&mut self, now: i64, pod: u64, step: u8, nodes: u64) {
        let owner = pod % 300;
        let namespace = format!("shoot--project-{:02}--cluster", owner % 40);
        let hash = hex(mix(owner), 10);
        let name = format!("workload-{owner}-{hash}-{}", hex(mix(pod ^ 0x90d), 5));
        let key = format!("/registry/pods/{namespace}/{name}");
        let node = mix(pod) % nodes.max(1);
        if step == 6 {
            self.ledger.begin();
            return self.ledger.delete(now, key.as_bytes());
        }
        let born = (now / SECOND) as u64;
        let manager = if step < 2 { "kube-controller-manager" } else { "kubelet" };
        let meta = Meta {
            name: &name,
            namespace: &namespace,
            created: BEGIN / SECOND + pod as i64 / 5,
            ..Meta::new(manager, now)
        };
        let owner_reference = Message::new()
            .text(1, "ReplicaSet")
            .text(3, &format!("workload-{owner}-{hash}"))
            .text(4, &uid(mix(owner)))
            .text(5, "apps/v1");
        let mut container = Message::new()
            .text(1, "main")
            .text(2, &format!("registry.example.org/team/workload-{owner}:v2.{}.1", owner % 9));
        for (variable, value) in
            [("LOG_LEVEL", "info"), ("GOMAXPROCS", "2"), ("POD_NAMESPACE", &namespace), ("ZONE", "eu-west-1a")]
        {
            container = container.message(7, Message::new().text(1, variable).text(2, value));
        }
        for mount in ["config", "certificates", "kube-api-access"] {
            container = container.message(
                9,
                Message::new().text(1, mount).number(2, 1).text(3, &format!("/var/run/secrets/{mount}")).text(4, ""),
            );
        }
        let mut spec = Message::new()
            .message(2, container)
            .text(3, "Always")
            .number(4, 30)
            .text(6, "ClusterFirst")
            .text(8, "default");
        if step >= 1 {
            spec = spec.text(10, &node_name(node));
        }
        let mut status = Message::new().text(1, if step >= 3 { "Running" } else { "Pending" });
        for (kind, reached) in [("PodScheduled", 1), ("Initialized", 2), ("ContainersReady", 4), ("Ready", 4)] {
            let is_true = step >= reached && !(step == 5 && reached == 4);
            status = status.message(
                2,
                Message::new()
                    .text(1, kind)
                    .text(2, if is_true { "True" } else { "False" })
                    .message(4, Message::new().number(1, born)),
            );
        }
        if step >= 2 {
            status = status.text(5, &address(node)).message(7, Message::new().number(1, born));
        }
        if step >= 3 {
            let id = format!("containerd://{}{}", hex(mix(pod ^ 7), 16).repeat(2), hex(mix(pod ^ 8), 16).repeat(2));
            let container = Message::new().text(1, "main").number(4, u64::from(step == 4)).text(8, &id);
            status = status.text(6, &address(pod + 100_000)).message(8, container);
        }
        let fields = format!(
            r#"{{"f:metadata":{{"f:labels":{{"f:app":{{}},"f:pod-template-hash":{{}}}}}},"f:spec":{{"f:containers":{{}},"f:nodeName":{{}}}},"f:status":{{"f:conditions":{{}},"f:phase":{{}},"f:step{step}":{{}}}}}}"#
        );
        let object =
            object("v1", "Pod", meta.message(mix(pod), Some(owner_reference), &fields), &[(2, spec), (3, status)]);
        self.put(now, &key, &object, LeaseId(0));
        let wait = [SECOND / 50, SECOND / 2, SECOND, 4 * SECOND, 600 * SECOND, 5 * SECOND]
            .get(usize::from(step))
            .copied()
            .unwrap_or(SECOND);
        self.later(now + wait, wait, Happening::Pod { pod, step: step + 1 });
        if matches!(step, 0..=3) {
            self.events += 1;
            self.event(now, self.events, 1);
        }
    }

    fn slice(&mut self, now: i64, slice: u64) {
        let namespace = format!("shoot--project-{:02}--cluster", slice % 40);
        let name = format!("service-{slice}-{}", hex(mix(slice ^ 0x511ce), 5));
        let meta = Meta {
            name: &name,
            namespace: &namespace,
            created: created(slice),
            ..Meta::new("kube-controller-manager", now)
        };
        let owner = Message::new()
            .text(1, "Service")
            .text(3, &format!("service-{slice}"))
            .text(4, &uid(mix(slice ^ 9)))
            .text(5, "v1");
        let count = 3 + mix(slice) % 58;
        let changed = self.random.below(count);
        let mut parts = vec![(4, Message(b"IPv4".to_vec()))];
        for endpoint in 0..count {
            let pod = slice * 100 + endpoint;
            let ready = u64::from(endpoint != changed);
            let target = Message::new()
                .text(1, "Pod")
                .text(2, &namespace)
                .text(3, &format!("service-{slice}-{}", hex(mix(pod), 5)))
                .text(4, &uid(mix(pod ^ 5)));
            let endpoint = Message::new()
                .text(1, &address(pod))
                .message(2, Message::new().number(1, ready).number(2, ready).number(3, 0))
                .message(4, target)
                .text(6, &node_name(pod % 5000))
                .text(7, "eu-west-1a");
            parts.push((2, endpoint));
        }
        parts.push((3, Message::new().text(1, "https").text(2, "TCP").number(3, 8443)));
        let fields = r#"{"f:addressType":{},"f:endpoints":{},"f:metadata":{"f:annotations":{},"f:generateName":{},"f:labels":{}},"f:ports":{}}"#;
        let object =
            object("discovery.k8s.io/v1", "EndpointSlice", meta.message(mix(slice), Some(owner), fields), &parts);
        self.put(now, &format!("/registry/endpointslices/{namespace}/{name}"), &object, LeaseId(0));
    }

    fn event(&mut self, now: i64, event: u64, count: u64) {
        let pod = event / 4;
        let namespace = format!("shoot--project-{:02}--cluster", pod % 300 % 40);
        let subject = format!("workload-{}-{}-{}", pod % 300, hex(mix(pod % 300), 10), hex(mix(pod ^ 0x90d), 5));
        let name = format!("{subject}.{}", hex(mix(event ^ 0xe7e), 16));
        let meta = Meta { name: &name, namespace: &namespace, created: now / SECOND, ..Meta::new("kubelet", now) };
        let (reason, text) = match event % 4 {
            0 => {
                ("Scheduled", format!("Successfully assigned {namespace}/{subject} to {}", node_name(mix(pod) % 5000)))
            }
            1 => ("Pulled", "Container image already present on machine".into()),
            2 => ("Created", "Created container: main".into()),
            _ => (
                "Unhealthy",
                format!(
                    "Readiness probe failed: Get \"https://{}:8443/readyz\": connection refused",
                    address(pod + 100_000)
                ),
            ),
        };
        let involved = Message::new()
            .text(1, "Pod")
            .text(2, &namespace)
            .text(3, &subject)
            .text(4, &uid(mix(pod)))
            .text(5, "v1")
            .text(6, "")
            .text(7, "spec.containers{main}");
        let time = || Message::new().number(1, (now / SECOND) as u64);
        let parts = vec![
            (2, involved),
            (3, Message(reason.into())),
            (4, Message(text.into_bytes())),
            (5, Message::new().text(1, "kubelet").text(2, &node_name(mix(pod) % 5000))),
            (6, time()),
            (7, time()),
        ];
        let mut made = object("v1", "Event", meta.message(mix(event), None, r#"{"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},"f:message":{},"f:reason":{},"f:source":{"f:component":{},"f:host":{}},"f:type":{}}"#), &parts);
        made = made.number(8, count).text(9, if event % 4 == 3 { "Warning" } else { "Normal" });
        // The API server hangs the events of a minute on one lease.
        let lease = LeaseId((mix(now as u64 / 60_000_000) >> 2) as i64);
        self.put(now, &format!("/registry/events/{namespace}/{name}"), &made, lease);
        if event % 4 == 3 && count < 3 {
            self.later(now + 10 * SECOND, SECOND, Happening::EventAgain { event, count: count + 1 });
        }
    }
}

/// What every object says of itself.
struct Meta<'a> {
    name: &'a str,
    namespace: &'a str,
    created: i64,
    manager: &'a str,
    now: i64,
}

impl<'a> Meta<'a> {
    fn new(manager: &'a str, now: i64) -> Self {
        Self { name: "", namespace: "", created: 0, manager, now }
    }

    fn message(&self, identity: u64, owner: Option<Message>, fields: &str) -> Message {
        let mut message = Message::new()
            .text(1, self.name)
            .text(2, "")
            .text(3, self.namespace)
            .text(4, "")
            .text(5, &uid(identity))
            .text(6, "")
            .number(7, 0)
            .message(8, Message::new().number(1, self.created as u64));
        for (label, value) in [("app.kubernetes.io/name", self.name), ("app.kubernetes.io/managed-by", self.manager)] {
            message = message.message(11, Message::new().text(1, label).text(2, value));
        }
        if let Some(owner) = owner {
            message = message.message(13, owner);
        }
        let managed = Message::new()
            .text(1, self.manager)
            .text(2, "Update")
            .text(3, "v1")
            .message(4, Message::new().number(1, (self.now / SECOND) as u64))
            .text(6, "FieldsV1")
            .message(7, Message::new().text(1, fields))
            .text(8, "status");
        message.message(17, managed)
    }
}

/// A protobuf message.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: Message) -> Self {
        self.bytes(field, &message.0)
    }
}

/// An object as the API server stores it: its kind, and then its parts.
fn object(version: &str, kind: &str, meta: Message, parts: &[(u64, Message)]) -> Message {
    let mut raw = Message::new().message(1, meta);
    for (field, part) in parts {
        raw = raw.bytes(*field, &part.0);
    }
    let kind = Message::new().text(1, version).text(2, kind);
    let unknown = Message::new().message(1, kind).message(2, raw).text(3, "").text(4, "");
    Message([b"k8s\0", &unknown.0[..]].concat())
}

fn node_name(node: u64) -> String {
    let subnet = node / 250 % 10 * 20 + mix(node ^ 0xadd) % 20;
    format!("ip-10-{}-{subnet}-{}.eu-west-1.compute.internal", 100 + node / 2500, node % 250)
}

fn address(number: u64) -> String {
    let number = mix(number ^ 0x1b);
    format!("10.{}.{}.{}", number % 4, number / 4 % 256, number / 1024 % 256)
}

/// When something was made that was there before the hour.
fn created(number: u64) -> i64 {
    BEGIN / SECOND - 1_000_000 - (mix(number ^ 0xc0) % 1_000_000) as i64
}

fn uid(number: u64) -> String {
    let [high, low] = [number, mix(number)];
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high & 0xffff,
        high >> 16 & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

fn hex(number: u64, digits: usize) -> String {
    format!("{number:016x}").chars().take(digits).collect()
}
