//! The helper's side: what the system's Kerberos library says to questions on standard input.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_KRB5_PRINCIPAL, OidSet};

use super::frame::{self, Frame, HEAD_BYTES, Kind};
use crate::limits::KERBEROS_CONVERSATION_COUNT_MAX;

/// The bit of "no security layer" among the layers that a broker offers. Source: RFC 4752, section 3.3.
const NO_LAYER: u8 = 1;

/// Our choice: no layer, hence no message of ours to unwrap, and nobody else to act for. Source: RFC 4752, section 3.1.
const CHOICE: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// Answers one question after the other, until nobody asks any more.
///
/// Errors: the pipes to the process that asks are broken.
pub fn serve(principal: Option<&str>, (mut questions, mut answers): (impl Read, impl Write)) -> io::Result<()> {
    let mut library = Library { principal, open: VecDeque::new() };
    loop {
        let mut head = [0; HEAD_BYTES];
        match questions.read_exact(&mut head) {
            Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let (kind, number, length) = frame::head(head)?;
        let mut data = vec![0; length];
        questions.read_exact(&mut data)?;
        let answered = match kind {
            Kind::Begin => library.begin(number, &data).map_err(|cause| cause.to_string()),
            _ => library.go_on(number, &data),
        };
        let (kind, data) = answered.unwrap_or_else(|cause| (Kind::Fault, cause.into_bytes()));
        answers.write_all(&Frame { kind, number, data }.bytes())?;
        answers.flush()?;
    }
}

struct Library<'a> {
    principal: Option<&'a str>,
    /// The oldest first.
    open: VecDeque<(u64, ClientCtx)>,
}

impl Library<'_> {
    fn begin(&mut self, number: u64, service: &[u8]) -> Result<(Kind, Vec<u8>), Error> {
        let principal = self.principal.map(|name| Name::new(name.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL)));
        let mechanism = OidSet::singleton(GSS_MECH_KRB5)?;
        // Asked for each time: the library hands out what it has, and fetches anew what has ended.
        let own = Cred::acquire(principal.transpose()?.as_ref(), None, CredUsage::Initiate, Some(&mechanism))?;
        let service = Name::new(service, Some(GSS_NT_HOSTBASED_SERVICE))?;
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG;
        let mut context = ClientCtx::new(Some(own), service, flags, Some(GSS_MECH_KRB5));
        let token = context.step(None, None)?.map(|token| token.to_vec()).unwrap_or_default();
        if self.open.len() == KERBEROS_CONVERSATION_COUNT_MAX {
            self.open.pop_front();
        }
        self.open.push_back((number, context));
        Ok((Kind::Token, token))
    }

    fn go_on(&mut self, number: u64, token: &[u8]) -> Result<(Kind, Vec<u8>), String> {
        let position = self.open.iter().position(|(open, _)| *open == number);
        let (_, mut context) = position
            .and_then(|at| self.open.remove(at))
            .ok_or("the conversation was given up, as others needed the room")?;
        let text = |cause: Error| cause.to_string();
        if context.is_complete() {
            let offer = context.unwrap(token).map_err(text)?;
            return Ok((Kind::Last, context.wrap(false, choose(&offer)?).map_err(text)?.to_vec()));
        }
        // The last token of the handshake may be empty: the broker's offer comes after it.
        let next = context.step(Some(token), None).map_err(text)?.map(|token| token.to_vec()).unwrap_or_default();
        self.open.push_back((number, context));
        Ok((Kind::Token, next))
    }
}

/// Our choice among the layers that a broker offers, in 1 byte, with the size of its buffer in 3.
fn choose(offer: &[u8]) -> Result<&'static [u8], &'static str> {
    match offer {
        [layers, _, _, _] if layers & NO_LAYER != 0 => Ok(&CHOICE),
        [_, _, _, _] => Err("the broker wants each message sealed (sasl.qop), which Kafka has no way for"),
        _ => Err("the broker's offer of security layers is malformed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_layer_is_chosen_where_it_is_offered() {
        assert_eq!(choose(&[1, 0, 0, 0]), Ok(&[1, 0, 0, 0][..]));
        assert_eq!(choose(&[7, 1, 0, 0]), Ok(&[1, 0, 0, 0][..]));
        for wrong in [&[6, 1, 0, 0][..], &[1, 0, 0], &[]] {
            assert!(choose(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn questions_are_answered_whatever_they_are() {
        let questions =
            [Kind::Answer, Kind::Last].map(|kind| Frame { kind, number: 5, data: vec![1] }.bytes()).concat();
        let mut answers = vec![];
        serve(None, (&questions[..], &mut answers)).unwrap();
        let (kind, number, _) = frame::head(answers[..HEAD_BYTES].try_into().unwrap()).unwrap();
        assert_eq!((kind, number), (Kind::Fault, 5));
        assert!(serve(None, (&[0; HEAD_BYTES][..], &mut answers)).is_err());
    }
}
