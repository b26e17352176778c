//! Keys of TLS and SASL.

use super::*;
#[cfg(feature = "kerberos")]
use crate::config::security::KerberosConfig;
use crate::config::security::{Identity, Origin, SaslConfig, ScramHash, TokenSource, Trust};

/// A cluster from line 9 on, with these lines behind two of its own, and a flow that reads it.
fn secured(lines: &str) -> String {
    with_flow("")
        + &format!(
            "[clusters.c]\nbootstrap.servers = 'c1:9092'\n{lines}\n[flows.g]\nsource.cluster = 'c'\nsink.cluster = 'b'\ntopics.names = ['u']\n"
        )
}

fn security(lines: &str) -> SecurityConfig {
    let config = parse(&secured(lines)).unwrap_or_else(|errors| panic!("{errors}"));
    config.flows[1].source.security.clone()
}

/// The one error of these lines, which begin on line 11.
#[track_caller]
fn refused(lines: &str, expected: &str) {
    says(&secured(lines), &[&format!("f.toml:{expected}")]);
}

#[test]
fn protocols_bring_their_layers() {
    let login = "sasl.mechanism = 'PLAIN'\nsasl.username = 'u'\nsasl.password = 'p'";
    for (protocol, lines) in [("PLAINTEXT", ""), ("SSL", ""), ("SASL_PLAINTEXT", login), ("SASL_SSL", login)] {
        let security = security(&format!("security.protocol = '{protocol}'\n{lines}"));
        assert_eq!(security.protocol(), protocol);
    }
}

#[test]
fn stores_and_keys_have_several_names() {
    let tls = |lines: &str| security(&format!("security.protocol = 'SSL'\n{lines}")).tls.unwrap();
    assert_eq!(tls("").trust, Trust::System);
    for key in ["ssl.truststore.location", "ssl.ca.location"] {
        let Trust::Pem(material) = tls(&format!("{key} = '/ca'")).trust else { panic!("{key}") };
        assert_eq!((material.key, material.origin), (key, Origin::File("/ca".into())));
    }
    assert!(
        matches!(tls("ssl.truststore.certificates = '---'").trust, Trust::Pem(material) if matches!(material.origin, Origin::Inline(_)))
    );
    assert!(matches!(tls("ssl.truststore.type = 'PKCS12'\nssl.truststore.location = '/t'").trust, Trust::Pkcs12(_)));
    let pair = "ssl.certificate.location = '/c'\nssl.key.location = '/k'\nssl.key.password = 'p'";
    assert!(matches!(tls(pair).identity, Some(Identity::Pem { password: Some(_), .. })));
    assert!(matches!(
        tls("ssl.keystore.type = 'PKCS12'\nssl.keystore.location = '/k'").identity,
        Some(Identity::Pkcs12(_))
    ));
    assert!(!tls("ssl.endpoint.identification.algorithm = ''").verifies_host);
}

#[test]
fn mechanisms_find_what_they_need() {
    let sasl = |lines: &str| security(&format!("security.protocol = 'SASL_SSL'\n{lines}")).sasl.unwrap();
    let jaas = "sasl.mechanism = 'SCRAM-SHA-512'\nsasl.jaas.config = 'a.ScramLoginModule required username=u password=\"p;\";'";
    let SaslConfig::Scram(ScramHash::Sha512, login) = sasl(jaas) else { panic!("SCRAM-SHA-512") };
    assert_eq!((login.username.reveal().unwrap().as_str(), login.password.reveal().unwrap().as_str()), ("u", "p;"));
    let bearer = "sasl.mechanism = 'OAUTHBEARER'\nsasl.oauthbearer.token.endpoint.url = ";
    let file = SaslConfig::OauthBearer(TokenSource::File("/t".into()));
    assert_eq!(sasl(&format!("{bearer}'file:/t'")), file);
    assert_eq!(sasl(&format!("{bearer}'file:///t'")), file);
    let client = "sasl.oauthbearer.client.id = 'i'\nsasl.oauthbearer.client.secret = 's'";
    assert!(matches!(
        sasl(&format!("{bearer}'https://idp/token'\n{client}")),
        SaslConfig::OauthBearer(TokenSource::Endpoint(endpoint)) if endpoint.url == "https://idp/token"
    ));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (lines, expected) in [
        (
            "ssl.ca.location = '/c'",
            "11: [clusters.c] ssl.ca.location: is given, but security.protocol is PLAINTEXT, set that to SSL or SASL_SSL or remove this key",
        ),
        (
            "security.protocol = 'SSL'\nsasl.username = 'u'",
            "12: [clusters.c] sasl.username: is given, but security.protocol is SSL, set that to SASL_SSL or remove this key",
        ),
        (
            "security.protocol = 'SSL'\nssl.ca.location = '/c'\nssl.truststore.location = '/t'",
            "12: [clusters.c] ssl.ca.location: is given beside ssl.truststore.location, remove one of the two",
        ),
        (
            "security.protocol = 'SSL'\nssl.certificate.location = '/c'",
            "9: [clusters.c] ssl.key.location: is missing, ssl.certificate.location needs it, add it",
        ),
        (
            "security.protocol = 'SSL'\nssl.keystore.type = 'PKCS12'",
            "9: [clusters.c] ssl.keystore.location: is missing, ssl.keystore.type PKCS12 needs it, add it",
        ),
        (
            "security.protocol = 'SSL'\nssl.keystore.type = 'JKS'\nssl.keystore.location = '/k'",
            "12: [clusters.c] ssl.keystore.type: JKS is Java's own form and not read here, convert the file with: keytool -importkeystore -srckeystore /k -destkeystore /k.p12 -deststoretype PKCS12, and give that one with the type PKCS12",
        ),
        (
            "security.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'u'",
            "9: [clusters.c] sasl.password: is missing, PLAIN needs it, add it",
        ),
        (
            "security.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.jaas.config = 'a.ScramLoginModule required;'",
            "13: [clusters.c] sasl.jaas.config: names the login module ScramLoginModule, but sasl.mechanism PLAIN needs PlainLoginModule, correct one of the two",
        ),
        (
            "security.protocol = 'SASL_SSL'\nsasl.mechanism = 'OAUTHBEARER'\nsasl.oauthbearer.token.endpoint.url = 'http://idp/token'",
            "13: [clusters.c] sasl.oauthbearer.token.endpoint.url: cannot be \"http://idp/token\", give https://HOST/PATH, http:// to this machine only, or file:/PATH of a token",
        ),
        (
            "client.id = '${env:NO_SUCH_NAME}'",
            "11: [clusters.c] client.id: ${env:NO_SUCH_NAME} is not set, set it in the environment of the process or correct the name",
        ),
    ] {
        refused(lines, expected);
    }
}

#[test]
#[cfg(feature = "kerberos")]
fn kerberos_finds_keytab_and_principal() {
    let kerberos = |lines: &str| match security(&format!("security.protocol = 'SASL_SSL'\n{lines}")).sasl {
        Some(SaslConfig::Gssapi(kerberos)) => kerberos,
        other => panic!("{other:?}"),
    };
    let config = |service: &str, principal: Option<&str>, keytab: Option<&str>| KerberosConfig {
        service: service.to_owned(),
        principal: principal.map(str::to_owned),
        keytab: keytab.map(Into::into),
    };
    assert_eq!(kerberos(""), config("kafka", None, None));
    let own = "sasl.kerberos.keytab = '/k'\nsasl.kerberos.principal = 'p@R'\nsasl.kerberos.service.name = 's'";
    assert_eq!(kerberos(own), config("s", Some("p@R"), Some("/k")));
    let jaas = |options: &str| kerberos(&format!("sasl.jaas.config = 'c.Krb5LoginModule required {options};'"));
    let all = "useKeyTab=true keyTab=\"/k\" principal=\"p@R\" serviceName=s storeKey=true";
    assert_eq!(jaas(all), config("s", Some("p@R"), Some("/k")));
    assert_eq!(jaas("useTicketCache=true keyTab=\"/k\""), config("kafka", None, None));
}

#[test]
#[cfg(feature = "kerberos")]
fn what_does_not_fit_kerberos_is_refused() {
    let gssapi = "security.protocol = 'SASL_SSL'\n";
    for (lines, expected) in [
        (
            "sasl.jaas.config = 'c.Krb5LoginModule required useKeyTab=true;'",
            "12: [clusters.c] sasl.jaas.config: lacks the option keyTab, add it",
        ),
        (
            "sasl.jaas.config = 'c.Krb5LoginModule required useTicketCache=true ticketCache=\"/c\";'",
            "12: [clusters.c] sasl.jaas.config: has the option ticketCache, which cannot be followed here, name the credential cache in the variable KRB5CCNAME of the process",
        ),
        (
            "sasl.jaas.config = 'c.Krb5LoginModule required;'\nsasl.kerberos.keytab = '/k'",
            "13: [clusters.c] sasl.kerberos.keytab: is given beside sasl.jaas.config, remove one of the two",
        ),
        ("sasl.password = 'p'", "12: [clusters.c] sasl.password: Kerberos takes no user and password, remove it"),
        (
            "sasl.kerberos.kinit.cmd = '/usr/bin/kinit'",
            "12: [clusters.c] sasl.kerberos.kinit.cmd: no kinit is run: tickets come from sasl.kerberos.keytab or from the default credential cache, remove it",
        ),
    ] {
        refused(&format!("{gssapi}{lines}"), expected);
    }
    refused(
        "security.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'u'\nsasl.password = 'p'\nsasl.kerberos.keytab = '/k'",
        "15: [clusters.c] sasl.kerberos.keytab: is given, but sasl.mechanism is PLAIN, set that to GSSAPI or remove this key",
    );
}

#[test]
#[cfg(not(feature = "kerberos"))]
fn a_build_without_kerberos_says_how_to_get_it() {
    refused(
        "security.protocol = 'SASL_SSL'",
        "9: [clusters.c] sasl.mechanism: this sharebridge was built without Kerberos, build it with the feature kerberos (cargo build --release --features kerberos), or name PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    );
}

#[test]
fn no_error_repeats_a_secret() {
    let protocol = "security.protocol = 'SASL_SSL'\nsasl.mechanism = 'PLAIN'\nsasl.username = 'u'\n";
    for line in [
        "sasl.password = hunter2",
        "sasl.pasword = hunter2",
        "sasl.pasword = 'hunter2'",
        "sasl.password = 'hunter2",
        "sasl.password = \"hunter2\\q\"",
        "sasl.password = 'hunter2' hunter2",
        "sasl.password = ['hunter2']",
        "sasl.password = { hunter2 = 'hunter2' ",
        "sasl.password = \"\"\"hunter2",
        "sasl.jaas.config = \"a.PlainLoginModule required password=\"hunter2\";\"",
        "sasl.jaas.config = 'a.PlainLoginModule required password=\"hunter2\"'",
        "sasl.jaas.config = 'hunter2'",
        "password = hunter2",
        "ssl.keystore.key = -----BEGIN hunter2",
    ] {
        let said = parse(&secured(&format!("{protocol}{line}"))).expect_err(line);
        assert!(!said.contains("hunter2"), "{line}: {said}");
    }
    let config = parse(&secured(&format!("{protocol}sasl.password = 'hunter2'"))).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}
