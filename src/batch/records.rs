//! The records inside a decompressed batch: a walk that reads only their first four fields.
//!
//! Source: Kafka's message format, "Record". Integers are zigzag varints.

/// One record, its key, value and headers left as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Added to the batch's base timestamp.
    pub(super) timestamp_delta: i64,
    /// Added to the batch's base offset.
    pub(super) offset_delta: i32,
    /// Key, value and headers, as they stand in the batch.
    pub(super) body: &'a [u8],
}

/// Walks `count` records, which must fill `block` exactly. Yields an error as its last item.
pub(super) struct Records<'a> {
    block: &'a [u8],
    left: u32,
}

impl<'a> Records<'a> {
    pub(super) fn new(block: &'a [u8], count: u32) -> Self {
        Records { block, left: count }
    }

    fn record(&mut self) -> Result<Record<'a>, &'static str> {
        let length = varint(&mut self.block).ok_or("its length is no varint")?;
        let length = usize::try_from(length).map_err(|_| "its length is negative")?;
        let (mut record, rest) = self.block.split_at_checked(length).ok_or("it ends after the batch")?;
        self.block = rest;
        let (_attributes, fields) = record.split_first().ok_or("it is empty")?;
        record = fields;
        let timestamp_delta = varlong(&mut record).ok_or("its timestamp delta is no varint")?;
        let offset_delta = varint(&mut record).ok_or("its offset delta is no varint")?;
        Ok(Record { timestamp_delta, offset_delta, body: record })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = match self.left {
            0 if self.block.is_empty() => return None,
            0 => {
                self.block = &[];
                return Some(Err("bytes follow the last record"));
            }
            left => left - 1,
        };
        let record = self.record();
        if record.is_err() {
            (self.block, self.left) = (&[], 0);
        }
        Some(record)
    }
}

/// Name and value of a header.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Key, value and headers of a record, read as far as is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Body<'a> {
    pub(super) key: Option<&'a [u8]>,
    /// Key and value as they stand in the batch.
    before: &'a [u8],
    header_count: i32,
    /// All headers as they stand in the batch.
    headers: &'a [u8],
}

impl<'a> Body<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, &'static str> {
        let mut rest = body;
        let key = field(&mut rest).ok_or("its key is cut")?;
        field(&mut rest).ok_or("its value is cut")?;
        let before = &body[..body.len() - rest.len()];
        let header_count = varint(&mut rest).filter(|count| *count >= 0).ok_or("its headers are not counted")?;
        Ok(Self { key, before, header_count, headers: rest })
    }

    pub(super) fn value(&self) -> Option<&'a [u8]> {
        let mut before = self.before;
        field(&mut before).and_then(|_| field(&mut before)).expect("key and value were read before")
    }

    /// The headers; an error ends them.
    pub(super) fn headers(&self) -> impl Iterator<Item = Result<Header<'a>, &'static str>> + use<'a> {
        let (mut left, mut rest) = (self.header_count, self.headers);
        std::iter::from_fn(move || {
            left = left.checked_sub(1).filter(|left| *left >= 0)?;
            let header = field(&mut rest).flatten().zip(field(&mut rest));
            if header.is_none() {
                left = 0;
            }
            Some(header.ok_or("one of its headers is cut"))
        })
    }

    /// The same with one more header behind the others.
    pub(super) fn with_header(&self, name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.before.len() + self.headers.len() + name.len() + value.len() + 15);
        body.extend_from_slice(self.before);
        put_varint(&mut body, i64::from(self.header_count) + 1);
        body.extend_from_slice(self.headers);
        put_field(&mut body, Some(name));
        put_field(&mut body, Some(value));
        body
    }
}

/// Takes a field with its length before it off the front; -1 is null.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = varint(bytes)?;
    if length == -1 {
        return Some(None);
    }
    let (field, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(Some(field))
}

/// Takes a zigzag varint of at most 32 bits off the front.
fn varint(bytes: &mut &[u8]) -> Option<i32> {
    // Five bytes carry 35 bits: a varint that does not fit 32 of them is malformed.
    i32::try_from(varlong(bytes)?).ok()
}

/// Takes a zigzag varint of at most 64 bits off the front.
fn varlong(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
        }
    }
    None
}

/// Appends key, value and headers as they stand in a batch.
pub(super) fn put_body<'a>(
    out: &mut Vec<u8>,
    (key, value): (Option<&[u8]>, Option<&[u8]>),
    headers: impl ExactSizeIterator<Item = Header<'a>>,
) {
    put_field(out, key);
    put_field(out, value);
    put_varint(out, i64::try_from(headers.len()).expect("a count fits 63 bits"));
    for (name, value) in headers {
        put_field(out, Some(name));
        put_field(out, value);
    }
}

/// Appends a field with its length before it; null is -1.
fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    let length = field.map_or(-1, |field| i64::try_from(field.len()).expect("a length fits 63 bits"));
    put_varint(out, length);
    out.extend_from_slice(field.unwrap_or_default());
}

/// Appends a zigzag varint; 32-bit fields are written the same way.
pub(super) fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while bits >= 0x80 {
        // The mask keeps the low seven bits.
        out.push((bits & 0x7f) as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        out
    }

    #[test]
    fn varints_are_zigzag() {
        let examples: [(i64, &[u8]); 6] = [
            (0, &[0]),
            (-1, &[1]),
            (1, &[2]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i32::MIN.into(), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ];
        for (value, bytes) in examples {
            assert_eq!(encoded(value), bytes);
        }
    }

    #[test]
    fn varints_too_long_or_cut_are_refused() {
        assert_eq!(varlong(&mut &encoded(i64::MIN)[..]), Some(i64::MIN));
        let past_64_bits = [&[0xff; 9][..], &[2]].concat();
        assert_eq!(varlong(&mut &past_64_bits[..]), None);
        assert_eq!(varlong(&mut &[0x80; 11][..]), None);
        assert_eq!(varlong(&mut &[0x80, 0x80][..]), None);
        assert_eq!(varint(&mut &encoded(i64::from(i32::MAX) + 1)[..]), None);
    }

    fn body(key: Option<&[u8]>, headers: &[Header<'_>]) -> Vec<u8> {
        let mut body = Vec::new();
        let put = |body: &mut Vec<u8>, field: Option<&[u8]>| {
            put_varint(body, field.map_or(-1, |field| field.len() as i64));
            body.extend_from_slice(field.unwrap_or_default());
        };
        put(&mut body, key);
        put(&mut body, Some(b"value"));
        put_varint(&mut body, headers.len() as i64);
        for (name, value) in headers {
            put(&mut body, Some(name));
            put(&mut body, *value);
        }
        body
    }

    #[test]
    fn one_more_header_changes_nothing_else() {
        let headers: [Header<'_>; 3] = [(b"twice", Some(b"\xff")), (b"twice", None), (b"", Some(b""))];
        for key in [None, Some(&b""[..]), Some(b"key")] {
            let bytes = body(key, &headers);
            let read = Body::read(&bytes).unwrap();
            assert_eq!(read.key, key);
            assert_eq!(read.headers().collect::<Result<Vec<_>, _>>().unwrap(), headers);
            let expected = body(key, &[&headers[..], &[(b"hop", Some(b"id"))]].concat());
            assert_eq!(read.with_header(b"hop", b"id"), expected);
        }
    }

    #[test]
    fn bodies_that_are_cut_are_refused_wherever_that_is() {
        let bytes = body(Some(b"key"), &[(b"name", Some(b"value"))]);
        for end in 0..bytes.len() {
            let read = Body::read(&bytes[..end]);
            assert!(read.is_err() || read.unwrap().headers().any(|header| header.is_err()), "{end}");
        }
        assert!(Body::read(&[1, 1, 1]).is_err(), "-1 headers");
        assert_eq!(Body::read(&[1, 1, 4, 1, 1]).unwrap().headers().count(), 1, "the name of a header is never null");
    }

    proptest! {
        #[test]
        fn varints_come_back(value in any::<i64>(), rest in prop::collection::vec(any::<u8>(), 0..3)) {
            let bytes = [&encoded(value)[..], &rest].concat();
            let mut left = &bytes[..];
            prop_assert_eq!(varlong(&mut left), Some(value));
            prop_assert_eq!(left, &rest[..]);
        }
    }
}
