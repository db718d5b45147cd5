//! The small buckets in an object.
//!
//! Their number, and for each: its name, the number of its entries, and for each of these key and value. Numbers are
//! varints; names, keys and values have their length before them. All are in order.

use etcd_data::Tables;

use crate::fields::{Fault, Fields, put_number, put_sized_bytes};

pub(super) fn encode(tables: &Tables) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, tables.buckets().count() as u64);
    for (name, table) in tables.buckets() {
        put_sized_bytes(&mut out, name);
        put_number(&mut out, table.len() as u64);
        for (key, value) in table {
            put_sized_bytes(&mut out, key);
            put_sized_bytes(&mut out, value);
        }
    }
    out
}

pub(super) fn parse(bytes: &[u8]) -> Result<Tables, Fault> {
    let mut fields = Fields::of(bytes);
    let mut tables = Tables::default();
    let mut last_name: Option<&[u8]> = None;
    for _ in 0..fields.size(usize::MAX)? {
        let name = fields.sized_bytes()?;
        if last_name.replace(name).is_some_and(|last| last >= name) {
            return Err(Fault("the tables are not in order"));
        }
        let table = tables.bucket_mut(name);
        let mut last_key: Option<&[u8]> = None;
        for _ in 0..fields.size(usize::MAX)? {
            let (key, value) = (fields.sized_bytes()?, fields.sized_bytes()?);
            if last_key.replace(key).is_some_and(|last| last >= key) {
                return Err(Fault("the entries of a table are not in order"));
            }
            table.insert(key.to_vec(), value.to_vec());
        }
    }
    fields.end()?;
    Ok(tables)
}
