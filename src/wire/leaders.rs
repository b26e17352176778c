//! Hints about leaders: what a broker says beside an error about who leads now, and where that one is (KIP-951).

use crate::wire::codec::{ReadError, Reader};

/// Who leads a partition now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrentLeader {
    /// The broker.
    pub node: i32,
    /// Its leader epoch.
    pub epoch: i32,
}

/// Where a broker is: node id and `host:port`.
pub type Endpoint = (i32, String);

/// Reads a leader; `None` where the broker does not say.
pub fn read_leader(reader: &mut Reader) -> Result<Option<CurrentLeader>, ReadError> {
    let leader = CurrentLeader { node: reader.i32()?, epoch: reader.i32()? };
    reader.tags()?;
    Ok(Some(leader).filter(|leader| leader.node >= 0))
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
