//! Hints about leaders: what a broker says beside an error about who leads now, and where that one is (KIP-951).

use crate::wire::codec::{ReadError, Reader};

/// Where a broker is: node id and `host:port`.
pub type Endpoint = (i32, String);

/// Reads which broker leads now; `None` where the reply does not say.
pub fn read_leader(reader: &mut Reader) -> Result<Option<i32>, ReadError> {
    let node = reader.i32()?;
    // The leader epoch, which nobody asks for yet.
    reader.i32()?;
    reader.tags()?;
    Ok(Some(node).filter(|node| *node >= 0))
}

/// Reads the list of endpoints beside the hints.
pub fn read_endpoints(reader: &mut Reader) -> Result<Vec<Endpoint>, ReadError> {
    reader.array(|reader| {
        let node = reader.i32()?;
        let host = reader.compact_str()?.unwrap_or_default();
        let port = reader.i32()?;
        reader.compact_str()?;
        reader.tags()?;
        Ok((node, format!("{host}:{port}")))
    })
}
