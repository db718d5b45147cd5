//! What to do where etcd or a store does not answer as it should, and about what etcd says is wrong.

use etcd_rpc::{AlarmKind, Fault, TlsFault};
use store::Distrust;

/// What to do where a member does not answer as it should.
pub fn remedy(fault: &Fault) -> String {
    match fault {
        Fault::LoginNeeded | Fault::WrongPassword => "--etcd-username and --etcd-password-file say who asks".into(),
        Fault::NoPassword { .. } => "--etcd-password-file names the file, which is read at each login".into(),
        Fault::Denied => "the user needs the role root: `etcdctl user grant-role USER root`".into(),
        Fault::NotEtcd { .. } => "--endpoints names where etcd serves its clients, mostly port 2379".into(),
        Fault::Tls(TlsFault::Expired) => {
            "give the member a new certificate (--cert-file); etcd reads it again by itself".into()
        }
        Fault::Tls(TlsFault::NotYetValid) => "compare the clock of this machine and the member's".into(),
        Fault::Tls(TlsFault::OtherHost { names, .. }) => {
            format!("--endpoints with a name that it is for ({}), or --etcd-server-name", names.join(", "))
        }
        Fault::Tls(TlsFault::UnknownAuthority) => "--cacert names the authority that signed it".into(),
        Fault::Tls(TlsFault::Refused { .. }) => {
            "--cert and --key name a certificate that etcd's --trusted-ca-file signed".into()
        }
        Fault::Tls(TlsFault::Needed) => "--endpoints https://…, with --cacert, --cert and --key".into(),
        Fault::Tls(TlsFault::Plain) => "--endpoints http://…".into(),
        Fault::Tls(_) => "--cacert, --cert and --key name the certificates".into(),
        Fault::Unreachable { .. } | Fault::Deadline { .. } => {
            "start it, or check --endpoints (http or https?), the network and firewalls".into()
        }
        Fault::NoLeader => "more than half of the members have to be up and reach each other".into(),
        _ => "look at what etcd logs".into(),
    }
}

/// What to do about an alarm. etcd takes none back by itself.
pub fn of_alarm(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::NoSpace => "compact, `etcdctl defrag`, `etcdctl alarm disarm`; then raise --quota-backend-bytes",
        AlarmKind::Corrupt => {
            "find the one that differs with `etcdctl endpoint hashkv --cluster`, and replace it: remove, wipe, add; then \
             `etcdctl alarm disarm`"
        }
        AlarmKind::Other(_) => "look at what etcd logs",
    }
}

/// What makes a store trusted that was not, because of `why`.
pub fn to_trust(why: &Distrust) -> &'static str {
    match why {
        Distrust::Expired(_) => "renew the certificate of the server; if it is good, set the clock of this machine",
        Distrust::NotYetValid(_) => "compare the clock of this machine with that of the server",
        Distrust::OtherName(_) => {
            "--endpoint has to name the server as its certificate does; with --path-style true the bucket is no part of \
             that name"
        }
        Distrust::Plain => "--endpoint http://… is for a server that does not encrypt, if that is meant",
        _ => "--ca-file names certificates to trust",
    }
}
