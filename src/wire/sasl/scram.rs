//! SCRAM without channel binding (RFC 5802, RFC 7677). Names and passwords are taken as they are, as Kafka does: no stringprep.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::Refusal;
use crate::config::security::ScramHash;
use crate::limits::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN};

/// The header of a client that binds to no channel, and the same in base64.
const NO_BINDING: (&str, &str) = ("n,,", "biws");

/// The first step.
#[derive(Debug)]
pub(super) struct Scram {
    hash: ScramHash,
    nonce: String,
}

/// The second step: the broker's salt is awaited.
#[derive(Debug)]
pub(super) struct Waiting {
    hash: ScramHash,
    nonce: String,
    first: String,
}

/// The last step: the broker must prove that it knows the password as well.
pub(super) struct Last {
    signature: Vec<u8>,
}

impl Scram {
    pub(super) fn new(hash: ScramHash) -> Self {
        // 244 random bits.
        Self { hash, nonce: format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()) }
    }

    /// The first message, and who waits for its answer.
    pub(super) fn begin(self, user: &str) -> (String, Waiting) {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={}", self.nonce);
        (format!("{}{first}", NO_BINDING.0), Waiting { hash: self.hash, nonce: self.nonce, first })
    }
}

impl Waiting {
    /// The proof for the broker's first message. It takes some ms of work, and up to half a second where the broker asks for it.
    pub(super) fn answer(self, server_first: &[u8], password: &[u8]) -> Result<(String, Last), Refusal> {
        let text = std::str::from_utf8(server_first).map_err(|_| Refusal::Broker("its SCRAM message is not text"))?;
        let mut fields = text.split(',');
        let mut field = |name: &str| fields.next().and_then(|field| field.strip_prefix(name));
        let malformed = Refusal::Broker("its SCRAM message has no nonce, salt and iterations");
        let (Some(nonce), Some(salt), Some(iterations)) = (field("r="), field("s="), field("i=")) else {
            return Err(malformed);
        };
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Refusal::Broker("its SCRAM message is no answer to ours: the nonce is another one"));
        }
        let salt = STANDARD.decode(salt).map_err(|_| Refusal::Broker("its SCRAM salt is not base64"))?;
        let iterations =
            iterations.parse().ok().filter(|count| (SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(count));
        let iterations =
            iterations.ok_or(Refusal::Broker("it asks for less than 4096 or more than 1000000 SCRAM iterations"))?;

        let hash = self.hash;
        let salted = hash.derive(password, &salt, iterations);
        let client_key = Zeroizing::new(hash.sign(&salted, b"Client Key"));
        let unproven = format!("c={},r={nonce}", NO_BINDING.1);
        let signed = format!("{},{text},{unproven}", self.first);
        let client_signature = hash.sign(&hash.digest(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&client_signature).map(|(key, signature)| key ^ signature).collect();
        let signature = hash.sign(&Zeroizing::new(hash.sign(&salted, b"Server Key")), signed.as_bytes());
        Ok((format!("{unproven},p={}", STANDARD.encode(proof)), Last { signature }))
    }
}

impl Last {
    /// Whether the broker knows the password.
    pub(super) fn check(&self, server_last: &[u8]) -> Result<(), Refusal> {
        let signature = server_last.strip_prefix(b"v=").and_then(|text| STANDARD.decode(text).ok());
        match signature {
            Some(signature) if bool::from(signature.ct_eq(&self.signature)) => Ok(()),
            _ => Err(Refusal::Broker("it did not prove that it knows the password")),
        }
    }
}

impl ScramHash {
    fn sign(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        const ANY_LENGTH: &str = "HMAC takes keys of any length";
        match self {
            Self::Sha256 => {
                let mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_LENGTH);
                mac.chain_update(message).finalize().into_bytes().to_vec()
            }
            Self::Sha512 => {
                let mac = Hmac::<Sha512>::new_from_slice(key).expect(ANY_LENGTH);
                mac.chain_update(message).finalize().into_bytes().to_vec()
            }
        }
    }

    fn digest(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }

    fn derive(self, password: &[u8], salt: &[u8], iterations: u32) -> Zeroizing<Vec<u8>> {
        let mut key = Zeroizing::new(vec![0; if self == Self::Sha256 { 32 } else { 64 }]);
        match self {
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut key),
            Self::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut key),
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conversation of RFC 7677, section 3.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn waiting() -> Waiting {
        Scram { hash: ScramHash::Sha256, nonce: NONCE.to_owned() }.begin("user").1
    }

    #[test]
    fn the_example_of_the_rfc_is_spoken() {
        let (proof, last) = waiting().answer(SERVER_FIRST.as_bytes(), b"pencil").unwrap();
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(last.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_ok());
        for wrong in ["v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "v=", "e=other-error", ""] {
            assert!(last.check(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_broker_that_plays_false_is_refused() {
        let wrong = [
            SERVER_FIRST.replace("r=rO", "r=xO"),
            SERVER_FIRST.replace("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
            SERVER_FIRST.replace("i=4096", "i=4095"),
            SERVER_FIRST.replace("i=4096", "i=1000001"),
            SERVER_FIRST.replace("i=4096", "i=x"),
            SERVER_FIRST.replace("s=", "s=!"),
            "m=x,r=y".to_owned(),
            String::new(),
        ];
        for message in wrong {
            assert!(waiting().answer(message.as_bytes(), b"pencil").is_err(), "{message}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let (first, _) = Scram::new(ScramHash::Sha512).begin("a=b,c");
        assert!(first.starts_with("n,,n=a=3Db=2Cc,r="), "{first}");
    }
}
