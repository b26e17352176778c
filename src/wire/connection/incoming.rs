//! The receiving half of a connection: frames come in, and are handed to those who wait for them.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncReadExt;

use super::shared::Shared;
use crate::limits::{FRAME_BYTES_MAX, READ_BUFFER_BYTES};
use crate::wire::transport::Incoming;

/// How a record begins with which TLS refuses what it does not understand. Source: RFC 8446, section 5.1.
const TLS_ALERT: [u8; 2] = [21, 3];

/// Reads until the connection ends, for whatever reason.
pub(super) async fn read_replies(mut incoming: Incoming, shared: Arc<Shared>) {
    let mut buffer = BytesMut::with_capacity(READ_BUFFER_BYTES);
    loop {
        let delivered = match read_frame(&mut incoming, &mut buffer, &shared).await {
            Ok(frame) => shared.deliver(frame),
            Err(cause) => Err(cause),
        };
        if let Err(cause) = delivered {
            shared.poison(&cause);
            return;
        }
    }
}

/// Reads one frame without its length prefix: correlation id first, at least four bytes.
async fn read_frame(incoming: &mut Incoming, buffer: &mut BytesMut, shared: &Shared) -> Result<Bytes, String> {
    let mut missing = 8;
    loop {
        if let Some(prefix) = buffer.first_chunk::<4>() {
            let size = usize::try_from(i32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
            if prefix[..2] == TLS_ALERT {
                return Err(
                    "the answer is an alert of TLS: this listener wants TLS, set security.protocol to SSL or SASL_SSL"
                        .to_owned(),
                );
            }
            if !(4..=FRAME_BYTES_MAX).contains(&size) {
                return Err(format!("a frame of {size} bytes; at most {FRAME_BYTES_MAX} are taken"));
            }
            if buffer.len() >= size + 4 {
                buffer.advance(4);
                return Ok(buffer.split_to(size).freeze());
            }
            missing = size + 4 - buffer.len();
        }
        buffer.reserve(missing.max(READ_BUFFER_BYTES / 4));
        match incoming.read_buf(buffer).await {
            Ok(0) => return Err(shared.closed()),
            Ok(_) => {}
            Err(cause) => return Err(cause.to_string()),
        }
    }
}
