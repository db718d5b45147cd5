//! A crash at every write and every sync: whatever of the writes since the last sync was lost, the file has either
//! no valid meta page, or is whole.

use std::io;

use bolt_file::sink::Sink;
use bolt_file::write::{Builder, Options};

use crate::strict::{self, Pairs};

const PAGE_SIZE: u32 = 1024;

enum Step {
    Write { bytes: Vec<u8>, offset: u64 },
    Sync,
}

#[derive(Default)]
struct Recorder(Vec<Step>);

impl Sink for Recorder {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.push(Step::Write { bytes: bytes.to_vec(), offset });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.push(Step::Sync);
        Ok(())
    }
}

/// What is on the disk after `steps`, of which the write numbers in `lost` never got there.
fn image(steps: &[Step], lost: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        if let Step::Write { bytes, offset } = step
            && !lost(number)
        {
            file.write_all_at(bytes, *offset).unwrap();
        }
    }
    file
}

fn pairs() -> Pairs {
    (0..60)
        .map(|n: u8| (vec![b'k', n], vec![n; usize::from(n) * 7]))
        .chain([(b"z".to_vec(), vec![9; 20_000])])
        .collect()
}

fn recorded() -> Vec<Step> {
    let mut recorder = Recorder::default();
    let options = Options { page_size: PAGE_SIZE, ..Options::default() };
    let mut builder = Builder::create(&mut recorder, options).unwrap();
    let mut bucket = builder.bucket(b"key").unwrap();
    for (key, value) in pairs() {
        bucket.push(&key, &value).unwrap();
    }
    bucket.finish().unwrap();
    builder.finish().unwrap();
    recorder.0
}

/// Whether the file that a crash left is whole; it must be, or be none.
fn is_whole_or_none(file: &[u8]) -> bool {
    if !strict::has_meta(file, PAGE_SIZE as usize) {
        return false;
    }
    assert_eq!(strict::read(file).pairs()[b"key".as_slice()], pairs());
    true
}

#[test]
fn a_crash_leaves_a_whole_file_or_none() {
    let steps = recorded();
    let (mut none, mut whole) = (0, 0);
    for stop in 0..=steps.len() {
        let steps = &steps[..stop];
        let synced = steps.iter().rposition(|step| matches!(step, Step::Sync)).unwrap_or(0);
        let mut count = |file: Vec<u8>| if is_whole_or_none(&file) { whole += 1 } else { none += 1 };
        count(image(steps, |_| false));
        count(image(steps, |number| number >= synced));
        for single in synced..stop {
            count(image(steps, |number| number == single));
            count(image(steps, |number| number >= synced && number != single));
        }
    }
    assert!(none > 1000 && whole > 0, "{none} none, {whole} whole");
}

#[test]
fn a_meta_write_that_is_torn_leaves_a_whole_file_or_none() {
    let steps = recorded();
    let Some(Step::Write { bytes, offset: 0 }) = steps.get(steps.len() - 2) else { panic!("the metas come last") };
    let before = image(&steps[..steps.len() - 2], |_| false);
    for kept in 0..=bytes.len() {
        let mut file = before.clone();
        file.write_all_at(&bytes[..kept], 0).unwrap();
        if strict::has_meta(&file, PAGE_SIZE as usize) {
            let other = image(&steps, |_| false);
            assert_eq!(file[2 * PAGE_SIZE as usize..], other[2 * PAGE_SIZE as usize..], "{kept} bytes kept");
        }
    }
}

#[test]
fn pages_are_written_once_and_in_order() {
    let mut end = u64::from(2 * PAGE_SIZE);
    let steps = recorded();
    for step in &steps[..steps.len() - 3] {
        let Step::Write { bytes, offset } = step else { panic!("a sync among the pages") };
        assert_eq!(*offset, end);
        end += bytes.len() as u64;
    }
    assert!(matches!(steps[steps.len() - 3..], [Step::Sync, Step::Write { offset: 0, .. }, Step::Sync]));
}
