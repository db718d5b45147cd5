//! Transactions, put together piece by piece.

use serde_json::{Value, json};

use super::json::{b64, signed};

/// If all comparisons hold, one list of operations; otherwise the other.
///
/// ```
/// # use testkit::{Compare, Op, Txn};
/// Txn::new()
///     .when(Compare::absent("lock"))
///     .then(Op::put("lock", "mine"))
///     .otherwise(Op::delete("wish"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Txn {
    compare: Vec<Value>,
    success: Vec<Value>,
    failure: Vec<Value>,
}

/// A comparison of a transaction.
#[derive(Debug, Clone)]
pub struct Compare(Value);

/// An operation of a transaction.
#[derive(Debug, Clone)]
pub struct Op(Value);

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnReply {
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The store's revision afterwards.
    pub revision: i64,
}

impl Txn {
    /// An empty transaction, whose comparisons all hold.
    pub fn new() -> Txn {
        Txn::default()
    }

    /// One more comparison.
    pub fn when(mut self, compare: Compare) -> Txn {
        self.compare.push(compare.0);
        self
    }

    /// One more operation for when all comparisons hold.
    pub fn then(mut self, op: Op) -> Txn {
        self.success.push(op.0);
        self
    }

    /// One more operation for when a comparison fails.
    pub fn otherwise(mut self, op: Op) -> Txn {
        self.failure.push(op.0);
        self
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"compare": self.compare, "success": self.success, "failure": self.failure})
    }
}

impl Compare {
    /// The key is not there.
    pub fn absent(key: impl AsRef<[u8]>) -> Compare {
        Compare::create_revision(key, 0)
    }

    /// The key was created at this revision.
    pub fn create_revision(key: impl AsRef<[u8]>, revision: i64) -> Compare {
        equal(key, "CREATE", "create_revision", &revision.to_string())
    }

    /// The key was last changed at this revision.
    pub fn mod_revision(key: impl AsRef<[u8]>, revision: i64) -> Compare {
        equal(key, "MOD", "mod_revision", &revision.to_string())
    }

    /// The key was put this often.
    pub fn version(key: impl AsRef<[u8]>, version: i64) -> Compare {
        equal(key, "VERSION", "version", &version.to_string())
    }

    /// The key has this value.
    pub fn value(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Compare {
        equal(key, "VALUE", "value", &b64(value))
    }
}

fn equal(key: impl AsRef<[u8]>, target: &str, field: &str, value: &str) -> Compare {
    Compare(json!({"key": b64(key), "result": "EQUAL", "target": target, field: value}))
}

impl Op {
    /// Puts a key.
    pub fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Op {
        Op::put_leased(key, value, 0)
    }

    /// Puts a key that hangs on `lease`.
    pub fn put_leased(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, lease: i64) -> Op {
        Op(json!({"request_put": {"key": b64(key), "value": b64(value), "lease": lease.to_string()}}))
    }

    /// Deletes a key.
    pub fn delete(key: impl AsRef<[u8]>) -> Op {
        Op(json!({"request_delete_range": {"key": b64(key)}}))
    }

    /// Deletes the keys from `key` up to but not including `end`.
    pub fn delete_range(key: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Op {
        Op(json!({"request_delete_range": {"key": b64(key), "range_end": b64(end)}}))
    }

    /// A transaction within the transaction.
    pub fn txn(txn: &Txn) -> Op {
        Op(json!({"request_txn": txn.to_json()}))
    }
}

impl TxnReply {
    pub(super) fn from_json(reply: &Value) -> TxnReply {
        TxnReply {
            succeeded: reply["succeeded"].as_bool().unwrap_or(false),
            revision: signed(&reply["header"]["revision"]),
        }
    }
}
