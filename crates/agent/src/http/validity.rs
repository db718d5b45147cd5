//! From when to when a certificate holds. TLS libraries look at that of others only; we look at our own before others do.

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The two dates of a certificate in DER, or nothing if it is none.
pub(crate) fn of(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let signed = Elements(certificate).next_of(SEQUENCE)?;
    let mut fields = Elements(Elements(signed).next_of(SEQUENCE)?);
    // The version may be left out; then come serial number, algorithm, issuer, and the dates.
    let mut skipped = 0;
    while skipped < 3 {
        let (tag, _) = fields.next()?;
        skipped += usize::from(tag != VERSION);
    }
    let mut dates = Elements(fields.next_of(SEQUENCE)?);
    let (from, until) = (dates.next()?, dates.next()?);
    Some((time(from)?, time(until)?))
}

/// The dates of the certificate in a file that runs out first.
pub(crate) async fn soonest_in(path: &Path) -> Option<(Timestamp, Timestamp)> {
    let pem = tokio::fs::read(path).await.ok()?;
    let dates = CertificateDer::pem_slice_iter(&pem).filter_map(|der| of(&der.ok()?));
    dates.min_by_key(|(_, until)| *until)
}

/// DER elements, one behind the other.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    fn next_of(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[tag, short], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// `YYMMDDHHMMSSZ`, of the years 1950 to 2049, or the same with four digits of the year.
fn time((tag, text): (u8, &[u8])) -> Option<Timestamp> {
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let date = DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0).ok()?;
    TimeZone::UTC.to_timestamp(date).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn the_dates_of_a_certificate_are_read() {
        for (from, until) in
            [((1975, 1, 1), (2049, 12, 31)), ((2020, 2, 29), (2050, 1, 1)), ((2051, 6, 7), (4096, 1, 1))]
        {
            let mut params = CertificateParams::new(vec!["a".into()]).unwrap();
            params.not_before = date_time_ymd(from.0, from.1, from.2);
            params.not_after = date_time_ymd(until.0, until.1, until.2);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let of_day = |day: (i32, u8, u8)| format!("{}-{:02}-{:02}T00:00:00Z", day.0, day.1, day.2).parse().unwrap();
            assert_eq!(of(certificate.der()), Some((of_day(from), of_day(until))));
            // Whatever is cut off, nothing panics.
            for length in 0..certificate.der().len() {
                let _ = of(&certificate.der()[..length]);
            }
        }
        assert_eq!(of(b""), None);
        assert_eq!(of(b"0\x84\xff\xff\xff\xff"), None);
    }
}
