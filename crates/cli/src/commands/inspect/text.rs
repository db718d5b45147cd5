//! What was found by inspecting, for people.

use super::{Inspection, LogJson, MemberJson, NeededKeyJson};
use crate::output::quoted::Quoted;
use crate::output::table::{Table, bytes};

impl Inspection {
    pub(super) fn text(&self) -> String {
        let prefixes = self.prefixes();
        if !self.is_earlier() {
            let mut facts = self.what_it_is();
            self.add_keys(&mut facts);
            self.add_cluster(&mut facts);
            return format!("{facts}\n\n{prefixes}");
        }
        let (mut then, mut now) = (self.what_it_is(), Table::default());
        self.add_keys(&mut then);
        self.add_cluster(&mut now);
        format!("{then}\n\nas it is now, at revision {}:\n{now}\n\n{prefixes}", self.newest_revision)
    }

    /// Whether it is looked at as it was before it became what it is.
    fn is_earlier(&self) -> bool {
        self.revision != self.newest_revision
    }

    fn what_it_is(&self) -> Table {
        let mut table = Table::default();
        table.fact("what", self.what());
        if let Some(lineage) = self.plan.as_ref().and_then(|plan| plan.lineage.as_ref()) {
            table.fact("lineage", lineage);
        }
        if self.encrypted == Some(false) {
            table.fact("encrypted", "no");
        }
        for key in &self.archive_keys {
            table.fact("encrypted", key.text());
        }
        table.fact("etcd version", &self.etcd_version);
        table
    }

    /// What is known of any revision.
    fn add_keys(&self, table: &mut Table) {
        table.fact("revision", self.revision);
        table.fact("compact revision", self.compaction());
        table.fact("live keys", self.live_keys);
        table.fact("records", format!("{} ({} of them deletions)", self.records, self.tombstones));
        let leases = if self.is_earlier() { format!("{} named", self.named_leases) } else { self.leases.to_string() };
        table.fact("leases", format!("{leases} ({} keys attached)", self.attached_keys));
    }

    /// What is known of the newest revision alone.
    fn add_cluster(&self, table: &mut Table) {
        if self.is_earlier() {
            table.fact("leases", self.leases);
        }
        for member in &self.members {
            table.fact("member", member.text());
        }
        for alarm in &self.alarms {
            table.fact("alarm", format!("{} of member {}", alarm.alarm, alarm.member));
        }
        if self.auth_enabled || self.users > 0 {
            let state = if self.auth_enabled { "on" } else { "off" };
            table.fact("authentication", format!("{state} ({} users, {} roles)", self.users, self.roles));
        }
        if let Some(log) = &self.log {
            table.fact("log", log.text());
        }
        for (fact, size) in [("size", self.size_bytes), ("in use", self.size_in_use_bytes), ("waste", self.waste_bytes)]
        {
            if let Some(size) = size {
                table.fact(fact, exact(size));
            }
        }
    }

    fn what(&self) -> String {
        let what = match self.kind {
            "snapshot" => "snapshot file",
            "database" => "database file, without the digest of a snapshot",
            "archive" => return self.what_of_archive(),
            _ => "data directory",
        };
        match self.container.as_str() {
            "plain" => what.into(),
            container => format!("{what}, in {container} ({})", bytes(self.file_size_bytes)),
        }
    }

    fn what_of_archive(&self) -> String {
        let (layout, count) = self.plan.as_ref().map_or(("", 0), |plan| (plan.layout, 1 + plan.deltas.len()));
        let objects = if count == 1 { "1 object".into() } else { format!("{count} objects") };
        format!("point of an archive in the layout of {layout}, of {objects} ({})", bytes(self.file_size_bytes))
    }

    fn compaction(&self) -> String {
        match (self.compact_revision, self.pending_compaction) {
            (-1, _) => "none".into(),
            (compact, None) => compact.to_string(),
            (compact, Some(_)) => format!("{compact}, begun but not finished"),
        }
    }

    /// The prefixes that hold most.
    fn prefixes(&self) -> Table {
        const SHOWN: usize = 12;
        let mut table = Table::with_header(["KEYS", "RECORDS", "SIZE", "BELOW"]);
        for found in self.prefixes.iter().take(SHOWN) {
            let prefix = if found.prefix.is_empty() { "(elsewhere)".into() } else { found.prefix.clone() };
            table.row([found.live_keys.to_string(), found.records.to_string(), bytes(found.bytes), prefix]);
        }
        if let Some(further) = self.prefixes.len().checked_sub(SHOWN).filter(|further| *further > 0) {
            let row = [String::new(), String::new(), String::new(), format!("and {further} more")];
            table.row(row);
        }
        table
    }
}

impl NeededKeyJson {
    fn text(&self) -> String {
        let objects = if self.objects == 1 { "1 object".into() } else { format!("{} objects", self.objects) };
        format!("{objects}, with the key in {}, which opens for {}", self.lockbox, self.recipients.join(" or "))
    }
}

impl MemberJson {
    fn text(&self) -> String {
        let name = if self.name.is_empty() { "(not started)".into() } else { Quoted(self.name.as_bytes()).to_string() };
        let urls = Quoted(self.peer_urls.join(",").as_bytes()).to_string();
        let learner = if self.is_learner { ", learner" } else { "" };
        format!("{} {name} {urls}{learner}", self.id)
    }
}

impl LogJson {
    fn text(&self) -> String {
        match (self.entries_ahead, self.uncommitted) {
            (0, _) => "nothing that the database does not have".into(),
            (ahead, 0) => format!("{ahead} entries ahead of the database, applied here"),
            (ahead, more) => {
                format!("{ahead} entries ahead of the database, applied here; {more} more are not committed")
            }
        }
    }
}

/// A size for people, with the number of bytes where that says more.
fn exact(size: u64) -> String {
    if size < 1024 { bytes(size) } else { format!("{} ({size} bytes)", bytes(size)) }
}
