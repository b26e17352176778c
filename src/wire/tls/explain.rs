//! What a failed handshake means, and what to do about it.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Why, and what to do, both for people.
pub type Explanation = (String, &'static str);

const TRUST: &str = "put the authority that signed it into ssl.truststore.location";
const HOST: &str = "name brokers as their certificates do, in bootstrap.servers and in the brokers' advertised.listeners, or switch \
                    the check off with ssl.endpoint.identification.algorithm = \"\"";
const RENEW: &str = "renew the certificate of the broker, or correct the clock";
const PORT: &str = "name the port of a listener with TLS in bootstrap.servers, or take SSL out of security.protocol";
const IDENTITY: &str = "give a certificate that the broker trusts in ssl.keystore.location, or in ssl.keystore.certificate.chain and \
                        ssl.keystore.key";
const BOTH: &str = "compare the TLS settings of both sides";

/// Explains a failure of the handshake, or of the first exchange behind it, in which a broker refuses a client's certificate.
pub fn explain(cause: &io::Error) -> Explanation {
    match cause.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => of_rustls(error),
        None if cause.kind() == io::ErrorKind::UnexpectedEof || cause.kind() == io::ErrorKind::ConnectionReset => (
            "the broker ended the connection during the TLS handshake, as a listener without TLS does".to_owned(),
            PORT,
        ),
        None => (cause.to_string(), BOTH),
    }
}

/// The same for the cause of a connection that ended at its first request. rustls tells the alert in words by then.
pub fn explain_late(cause: &str) -> Explanation {
    if cause.contains("alert") {
        return (format!("the broker refuses the connection ({cause})"), IDENTITY);
    }
    (
        format!(
            "the broker ended the connection behind the handshake ({cause}), as it does where a certificate is asked for"
        ),
        IDENTITY,
    )
}

fn of_rustls(error: &Error) -> Explanation {
    match error {
        Error::InvalidCertificate(certificate) => of_certificate(certificate),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            ("what the broker answers is not TLS".to_owned(), PORT)
        }
        Error::AlertReceived(alert) => (format!("the broker refuses the connection ({alert:?})"), of_alert(*alert)),
        other => (other.to_string(), BOTH),
    }
}

fn of_alert(alert: AlertDescription) -> &'static str {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired
        | Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::UnsupportedCertificate
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::HandshakeFailure => IDENTITY,
        _ => BOTH,
    }
}

fn of_certificate(error: &CertificateError) -> Explanation {
    use CertificateError as Certificate;
    match error {
        Certificate::UnknownIssuer | Certificate::BadSignature => {
            ("the broker's certificate is signed by nobody that is trusted here".to_owned(), TRUST)
        }
        Certificate::NotValidForName => ("the broker's certificate does not name this host".to_owned(), HOST),
        Certificate::NotValidForNameContext { presented, .. } => {
            (format!("the broker's certificate does not name this host, but {}", presented.join(", ")), HOST)
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            ("the broker's certificate has expired".to_owned(), RENEW)
        }
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            ("the broker's certificate is not valid yet".to_owned(), RENEW)
        }
        other => (format!("the broker's certificate is refused: {other}"), BOTH),
    }
}
