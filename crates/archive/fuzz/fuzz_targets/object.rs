//! A whole object: opened, and all of it read, in both directions and by key.

#![no_main]

use std::ops::ControlFlow;
use std::sync::Arc;

use archive::Object;
use archive::object::Wanted;
use archive::sealing::NoKeys;
use bytes::Bytes;
use etcd_data::database::Direction;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(object) = Object::open("fuzz", Arc::new(Bytes::copy_from_slice(bytes)), &NoKeys) else { return };
    let _ = (object.closing().is_ok(), object.tables().is_ok(), object.verify_digest().is_ok());
    for wanted in [Wanted::Key(b"/registry/gone"), Wanted::Prefix(b"")] {
        let _ = object.chunks_with(wanted).map(Iterator::count);
    }
    for (_, records) in object.chunks() {
        for direction in [Direction::Forwards, Direction::Backwards] {
            let _ = records.read(direction, &mut |_, _: &[u8]| Ok(ControlFlow::Continue(())));
        }
    }
});
