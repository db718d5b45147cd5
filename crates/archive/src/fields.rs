//! Numbers and bytes as our own formats write them, and a reader of them that believes nothing.
//!
//! Numbers are varints: seven bits a byte, the lowest first, the highest bit set on all but the last byte. Signed
//! numbers are folded first, so that small ones stay short: 0, -1, 1, -2 become 0, 1, 2, 3. No number has more than 64 bits,
//! and no length is believed that goes beyond the bytes that are there.

/// What contradicts the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) &'static str);

/// Bytes that are taken apart from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

const CUT_SHORT: Fault = Fault("it ends inside a field");

impl<'a> Fields<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that was not taken yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Fault> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits.wrapping_shl(shift).wrapping_shr(shift) != bits {
                return Err(Fault("a number is too large"));
            }
            number |= bits.wrapping_shl(shift);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Fault("a number is too long"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Fault> {
        let folded = self.number()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// A number that counts or measures something in memory, at most `limit`.
    pub(crate) fn size(&mut self, limit: usize) -> Result<usize, Fault> {
        let size = usize::try_from(self.number()?).ok().filter(|&size| size <= limit);
        size.ok_or(Fault("a length is beyond what can be"))
    }

    /// A length, and that many bytes.
    pub(crate) fn sized_bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.size(self.rest.len())?;
        self.bytes(len)
    }

    /// Refuses bytes that nobody took.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        if self.rest.is_empty() { Ok(()) } else { Err(Fault("bytes are left over")) }
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number << 1 ^ number >> 63) as u64);
}

pub(crate) fn put_sized_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_were_written() {
        for number in [0, 1, -1, 63, 64, -64, -65, 1 << 40, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, number);
            put_number(&mut bytes, number as u64);
            let mut fields = Fields::of(&bytes);
            assert_eq!((fields.signed(), fields.number()), (Ok(number), Ok(number as u64)));
            assert_eq!(fields.end(), Ok(()));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert!(Fields::of(bytes).number().is_err(), "{bytes:?}");
        }
        assert!(Fields::of(&[5, 1, 2]).sized_bytes().is_err());
        assert!(Fields::of(&[5]).size(4).is_err());
    }
}
