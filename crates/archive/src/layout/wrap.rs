//! A snapshot file in a container, as a stream.

use std::io::{self, Read, Write};

use etcd_data::container::Container;
use flate2::Compression;
use jiff::Timestamp;
use zip::write::SimpleFileOptions;

/// Writes `snapshot`, which has `size_bytes`, to `out`, wrapped in `container`. A zip archive calls it `name` and has
/// it of the moment `taken`. What is written is whole when this returns.
pub fn wrap(
    snapshot: &mut dyn Read,
    size_bytes: u64,
    container: Container,
    (name, taken): (&str, Timestamp),
    out: &mut dyn Write,
) -> io::Result<()> {
    match container {
        Container::Plain => copy(snapshot, out),
        Container::Gzip => {
            let mut gzip = flate2::write::GzEncoder::new(out, Compression::default());
            copy(snapshot, &mut gzip)?;
            gzip.finish().map(drop)
        }
        Container::Zlib => {
            let mut zlib = flate2::write::ZlibEncoder::new(out, Compression::default());
            copy(snapshot, &mut zlib)?;
            zlib.finish().map(drop)
        }
        Container::Zstd => {
            let mut zstd = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            copy(snapshot, &mut zstd)?;
            zstd.finish().map(drop)
        }
        Container::Lzw => {
            let mut encoder = weezl::encode::Encoder::new(weezl::BitOrder::Lsb, 8);
            encoder.into_stream(out).encode_all(io::BufReader::with_capacity(BUFFER, snapshot)).status
        }
        Container::Zip => {
            /// Sizes of 32 bits end here.
            const LARGE: u64 = u32::MAX as u64;
            let options = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Deflated)
                .unix_permissions(0o600)
                .last_modified_time(zip_time(taken))
                .large_file(size_bytes >= LARGE);
            let mut zip = zip::ZipWriter::new_stream(out);
            zip.start_file(name, options)?;
            copy(snapshot, &mut zip)?;
            zip.finish()?;
            Ok(())
        }
    }
}

const BUFFER: usize = 256 << 10;

fn copy(snapshot: &mut dyn Read, out: &mut dyn Write) -> io::Result<()> {
    io::copy(&mut io::BufReader::with_capacity(BUFFER, snapshot), out).map(drop)
}

/// A moment in UTC, as a zip archive has it. Those before 1980 become 1980.
fn zip_time(taken: Timestamp) -> zip::DateTime {
    let time = taken.to_zoned(jiff::tz::TimeZone::UTC);
    let [month, day, hour, minute, second] =
        [time.month(), time.day(), time.hour(), time.minute(), time.second()].map(|part| part.unsigned_abs());
    let year = u16::try_from(time.year()).unwrap_or_default();
    zip::DateTime::from_date_and_time(year, month, day, hour, minute, second).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrapped_comes_out_again() {
        let bytes: Vec<u8> = (0..700_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        let named = ("snapshot", Timestamp::UNIX_EPOCH);
        for container in [Container::Plain, Container::Gzip, Container::Zlib, Container::Zstd, Container::Lzw] {
            let mut wrapped = Vec::new();
            wrap(&mut bytes.as_slice(), bytes.len() as u64, container, named, &mut wrapped).unwrap();
            let mut found = Vec::new();
            container.unwrapped(wrapped.as_slice()).unwrap().read_to_end(&mut found).unwrap();
            assert!(found == bytes, "{container}");
            let head = wrapped.first_chunk::<4>().unwrap();
            let magic: &[u8] = match container {
                Container::Gzip => &[0x1f, 0x8b, 8, 0],
                Container::Zlib => &[0x78, 0x9c],
                Container::Lzw => &[0],
                _ => &[],
            };
            assert!(head.starts_with(magic), "{container} {head:?}");
        }
    }
}
