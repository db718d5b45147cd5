//! The cases: what is sent to a server before its database file is kept.

use testkit::{Client, Compare, Op, Txn, Version};

use super::{Case, End, require, retry};
use crate::Result;

pub(super) const CASES: &[Case] = &[
    Case { name: "empty", traffic: Ok, ..STANDARD },
    Case { name: "history", traffic: history, ..STANDARD },
    Case { name: "compacted", traffic: compacted, ..STANDARD },
    Case { name: "compacting", traffic: compacting, flags: slow_compaction, end: End::Kill, ..STANDARD },
    Case { name: "large", traffic: large, ..STANDARD },
    Case { name: "leases", traffic: leases, ..STANDARD },
    Case { name: "auth", traffic: auth, ..STANDARD },
    Case { name: "alarms", traffic: alarms, ..STANDARD },
    Case { name: "members", traffic: members, members: 3, ..STANDARD },
    Case { name: "downgrading", traffic: downgrading, since: Version::V36, ..STANDARD },
];

const STANDARD: Case = Case { name: "", since: Version::V34, members: 1, flags: |_| &[], traffic: Ok, end: End::Stop };

/// Puts, overwrites, deletes, new generations, and transactions of several operations; keys
/// and values of arbitrary bytes; nothing is compacted.
fn history(client: Client) -> Result<Client> {
    for round in 0..6_u8 {
        for number in 0..12_u8 {
            client.put(format!("/registry/pods/{number:02}"), [round, number, 0, 0xff])?;
        }
        client.delete(format!("/registry/pods/{:02}", round * 2))?;
        client.txn(
            &Txn::new()
                .when(Compare::absent("/registry/locks/a"))
                .then(Op::put("/registry/locks/a", [round]))
                .then(Op::put("/registry/locks/b", [round]))
                .then(Op::delete_range("/registry/pods/05", "/registry/pods/08"))
                .then(Op::txn(&Txn::new().then(Op::put(b"\x00\xff\x00", b"")).then(Op::put(b"\xff", b"\x00"))))
                .otherwise(Op::delete("/registry/locks/a"))
                .otherwise(Op::put("/registry/locks/b", b"")),
        )?;
    }
    client.delete_range("/registry/pods/08", "/registry/pods/11")?;
    client.delete("/never/there")?;
    Ok(client)
}

/// A compaction in the middle of a history, and life after it.
fn compacted(client: Client) -> Result<Client> {
    let client = history(client)?;
    client.compact(client.status()?.revision / 2)?;
    client.delete_range("/registry/pods/", "/registry/pods0")?;
    let tombstones = client.status()?.revision;
    for number in 0..5_u8 {
        client.put("/registry/pods/00", [number])?;
    }
    // The second one ends on a revision that is nothing but tombstones.
    client.compact(tombstones)?;
    client.put("/registry/pods/01", b"last")?;
    Ok(client)
}

/// A compaction that has been scheduled, has begun, and was cut off by the death of the server.
fn compacting(client: Client) -> Result<Client> {
    for number in 0..600_u32 {
        client.put(format!("/registry/events/{:02}", number % 40), number.to_be_bytes())?;
    }
    client.compact_soon(client.status()?.revision - 20)?;
    Ok(client)
}

/// A batch of one record, and then a pause: the 580 records take long enough to be cut off.
fn slow_compaction(version: Version) -> &'static [&'static str] {
    match version {
        Version::V34 | Version::V35 | Version::V36 => &["--experimental-compaction-batch-limit=1"],
        Version::V37 => &["--compaction-batch-limit=1"],
    }
}

/// Trees of several levels, keys of 1 KiB, and values over many pages.
fn large(client: Client) -> Result<Client> {
    for number in 0..3000_u32 {
        client.put(format!("/registry/nodes/{:04}", number * 7 % 2500), format!("node {number} ").repeat(20))?;
    }
    client.put([b'k'; 1024], [b'v'; 1024])?;
    client.put("/registry/configmaps/big", vec![b'x'; 1 << 20])?;
    client.delete_range("/registry/nodes/1000", "/registry/nodes/1500")?;
    Ok(client)
}

/// Leases with and without keys, revoked, changed by their keys, with ids of all sizes.
fn leases(client: Client) -> Result<Client> {
    const LONG: i64 = 1_000_000;
    for id in [1, 7, -5, (1 << 60) + 1, i64::MAX] {
        client.grant(LONG + id % 100, id)?;
    }
    client.put_leased("a", "1", 7)?;
    client.put_leased("b", "1", 7)?;
    client.put_leased("b", "2", -5)?;
    client.put_leased("c", "1", (1 << 60) + 1)?;
    client.put("c", "2")?;
    client.put_leased("d", "1", i64::MAX)?;
    client.txn(&Txn::new().then(Op::put_leased("e", "1", 7)).then(Op::put_leased("f", "1", i64::MAX)))?;
    client.grant(LONG, 99)?;
    client.put_leased("gone", "1", 99)?;
    client.put_leased("gone too", "1", 99)?;
    client.revoke(99)?;
    Ok(client)
}

/// Authentication turned on, with users and roles.
fn auth(client: Client) -> Result<Client> {
    client.put("/app/a", "1")?;
    for (user, password) in [("root", "root-secret"), ("reader", "reader-secret"), ("nobody", "nobody-secret")] {
        client.user_add(user, password)?;
    }
    client.role_add("readers")?;
    client.role_grant("readers", "READ", "/app/", "/app0")?;
    client.role_grant("readers", "READWRITE", "/app/own", "")?;
    client.role_grant("readers", "WRITE", "/drop/", [0])?;
    client.role_add("empty")?;
    client.user_grant_role("root", "root")?;
    client.user_grant_role("reader", "readers")?;
    client.user_grant_role("reader", "empty")?;
    client.auth_enable()?;

    client.log_in("reader", "reader-secret")?.put("/app/own", "2")?;
    Ok(client.log_in("root", "root-secret")?)
}

/// An alarm for the member and one for a member that does not exist. (CORRUPT would refuse the
/// questions that we ask afterwards.)
fn alarms(client: Client) -> Result<Client> {
    client.put("a", "1")?;
    client.raise_alarm(client.status()?.member_id, "NOSPACE")?;
    client.raise_alarm(0xbad, "NOSPACE")?;
    Ok(client)
}

/// Three members, of which one is removed, and a learner that has never started.
fn members(client: Client) -> Result<Client> {
    client.put("a", "1")?;
    let status = client.status()?;
    // Neither the one we ask nor the leader, whose removal would be an answer that never comes.
    let other =
        client.member_list()?.into_iter().find(|member| ![status.member_id, status.leader].contains(&member.id));
    let other = other.ok_or("a cluster of three has no third member")?;
    // A cluster changes its members only after its peers have been connected for some seconds.
    retry(|| Ok(client.member_remove(other.id)?))?;
    retry(|| Ok(client.learner_add("http://127.0.0.1:9").map(drop)?))?;
    client.put("b", "2")?;
    Ok(client)
}

/// A downgrade to the version before, as far as the database's part of it.
fn downgrading(client: Client) -> Result<Client> {
    client.put("a", "1")?;
    let current = client.status()?.storage_version;
    let minor: u32 = current.split('.').nth(1).unwrap_or_default().parse()?;
    let target = format!("3.{}", minor - 1);
    retry(|| Ok(client.downgrade_enable(&target)?))?;
    retry(|| {
        let reached = client.status()?.storage_version;
        require(reached.starts_with(&target), &format!("the storage version is still {reached}"))
    })?;
    client.put("b", "2")?;
    Ok(client)
}
