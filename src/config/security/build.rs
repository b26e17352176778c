//! From the keys of a cluster to how it is protected.

use super::super::error::Problem;
use super::super::secret::Secret;
use super::super::section::View;
use super::{
    Identity, KerberosConfig, Login, Material, Origin, SaslConfig, ScramHash, SecurityConfig, Store, TlsConfig,
    TokenEndpoint, TokenSource, Trust, jaas,
};

/// Builds the protection of a cluster; what is wrong goes to the errors of the view.
pub(in crate::config) fn security(view: &mut View<'_>) -> SecurityConfig {
    let protocol = view.text("security.protocol").unwrap_or_default();
    let (with_sasl, with_tls) = (protocol.starts_with("SASL_"), protocol.ends_with("SSL"));
    for (is_used, prefix, needs) in [(with_tls, "ssl.", "SSL or SASL_SSL"), (with_sasl, "sasl.", "SASL_SSL")] {
        for key in view.given_keys(prefix).filter(|_| !is_used) {
            view.report(key, Problem::NeedsProtocol { protocol: protocol.clone(), needs });
        }
    }
    SecurityConfig { tls: with_tls.then(|| tls(view)), sasl: if with_sasl { sasl(view) } else { None } }
}

fn tls(view: &mut View<'_>) -> TlsConfig {
    let algorithm = view.text("ssl.endpoint.identification.algorithm");
    TlsConfig {
        trust: trust(view),
        identity: identity(view),
        verifies_host: algorithm.is_none_or(|algorithm| algorithm == "https"),
    }
}

/// Reports all but the first of several ways to say the same.
fn only_one(view: &mut View<'_>, keys: &[&'static str]) {
    let given: Vec<&'static str> = keys.iter().copied().filter(|key| view.is_given(key)).collect();
    if let Some((first, others)) = given.split_first() {
        others.iter().for_each(|key| view.report(key, Problem::Beside { other: first }));
    }
}

fn refuse_jks(view: &mut View<'_>, key: &str, location: &str) -> bool {
    let is_jks = view.text(key).is_some_and(|kind| kind == "JKS");
    if is_jks {
        let file = view.optional(location).unwrap_or_else(|| "FILE.jks".to_owned());
        view.report(key, Problem::Jks { file });
    }
    is_jks
}

fn file(view: &mut View<'_>, key: &'static str) -> Option<Material> {
    view.optional(key).map(|path| Material { key, origin: Origin::File(path.into()) })
}

fn inline(view: &mut View<'_>, key: &'static str) -> Option<Material> {
    view.secret(key).map(|text| Material { key, origin: Origin::Inline(text) })
}

fn trust(view: &mut View<'_>) -> Trust {
    const LOCATION: &str = "ssl.truststore.location";
    only_one(view, &[LOCATION, "ssl.truststore.certificates", "ssl.ca.location"]);
    if refuse_jks(view, "ssl.truststore.type", LOCATION) {
        return Trust::System;
    }
    if view.text("ssl.truststore.type").is_some_and(|kind| kind == "PKCS12") {
        let password = view.secret("ssl.truststore.password");
        return match view.optional(LOCATION) {
            Some(path) => Trust::Pkcs12(Store { key: LOCATION, file: path.into(), password }),
            None => {
                view.require(LOCATION, "ssl.truststore.type PKCS12");
                Trust::System
            }
        };
    }
    let given = file(view, LOCATION)
        .or_else(|| inline(view, "ssl.truststore.certificates"))
        .or_else(|| file(view, "ssl.ca.location"));
    given.map_or(Trust::System, Trust::Pem)
}

fn identity(view: &mut View<'_>) -> Option<Identity> {
    const LOCATION: &str = "ssl.keystore.location";
    only_one(view, &[LOCATION, "ssl.keystore.certificate.chain", "ssl.certificate.location"]);
    only_one(view, &[LOCATION, "ssl.keystore.key", "ssl.key.location"]);
    if refuse_jks(view, "ssl.keystore.type", LOCATION) {
        return None;
    }
    let password = view.secret("ssl.key.password");
    if view.text("ssl.keystore.type").is_some_and(|kind| kind == "PKCS12") {
        let password = view.secret("ssl.keystore.password").or(password);
        let Some(path) = view.optional(LOCATION) else {
            view.require(LOCATION, "ssl.keystore.type PKCS12");
            return None;
        };
        return Some(Identity::Pkcs12(Store { key: LOCATION, file: path.into(), password }));
    }
    if let Some(both) = file(view, LOCATION) {
        let password = password.or_else(|| view.secret("ssl.keystore.password"));
        return Some(Identity::Pem { chain: both.clone(), private_key: both, password });
    }
    let chain = inline(view, "ssl.keystore.certificate.chain").or_else(|| file(view, "ssl.certificate.location"));
    let private_key = inline(view, "ssl.keystore.key").or_else(|| file(view, "ssl.key.location"));
    match (chain, private_key) {
        (Some(chain), Some(private_key)) => Some(Identity::Pem { chain, private_key, password }),
        (Some(chain), None) => {
            let partner = if chain.key == "ssl.certificate.location" { "ssl.key.location" } else { "ssl.keystore.key" };
            view.require(partner, chain.key);
            None
        }
        (None, Some(key)) => {
            let partner = if key.key == "ssl.key.location" {
                "ssl.certificate.location"
            } else {
                "ssl.keystore.certificate.chain"
            };
            view.require(partner, key.key);
            None
        }
        (None, None) => None,
    }
}

fn sasl(view: &mut View<'_>) -> Option<SaslConfig> {
    let mechanism = view.text("sasl.mechanism")?;
    for key in view.given_keys("sasl.kerberos.").filter(|_| mechanism != "GSSAPI") {
        view.report(key, Problem::NeedsKerberos { mechanism: mechanism.clone() });
    }
    match mechanism.as_str() {
        "PLAIN" => login(view, "PLAIN", "PlainLoginModule").map(SaslConfig::Plain),
        "SCRAM-SHA-256" => {
            login(view, "SCRAM-SHA-256", "ScramLoginModule").map(|login| SaslConfig::Scram(ScramHash::Sha256, login))
        }
        "SCRAM-SHA-512" => {
            login(view, "SCRAM-SHA-512", "ScramLoginModule").map(|login| SaslConfig::Scram(ScramHash::Sha512, login))
        }
        "OAUTHBEARER" => tokens(view).map(SaslConfig::OauthBearer),
        _ if cfg!(feature = "kerberos") => Some(SaslConfig::Gssapi(kerberos(view))),
        _ => {
            view.report("sasl.mechanism", Problem::WithoutKerberos);
            None
        }
    }
}

/// The `sasl.jaas.config`, where its module is the one that the mechanism needs.
fn module(view: &mut View<'_>, mechanism: &'static str, wanted: &'static str) -> Option<Secret> {
    const KEY: &str = "sasl.jaas.config";
    let config = view.secret(KEY)?;
    let text = config.reveal().ok()?;
    let found = match jaas::module(&text) {
        Ok(found) if found == wanted => return Some(config),
        Ok(found) => jaas::JaasError::OtherModule { found: found.to_owned(), mechanism, wanted },
        Err(error) => error,
    };
    view.report(KEY, Problem::Secret(found.into()));
    None
}

fn login(view: &mut View<'_>, mechanism: &'static str, wanted: &'static str) -> Option<Login> {
    only_one(view, &["sasl.jaas.config", "sasl.username"]);
    only_one(view, &["sasl.jaas.config", "sasl.password"]);
    if view.is_given("sasl.jaas.config") {
        let config = module(view, mechanism, wanted)?;
        let login = Login { username: config.option("username"), password: config.option("password") };
        for secret in [&login.username, &login.password] {
            if let Err(error) = secret.reveal() {
                view.report("sasl.jaas.config", Problem::Secret(error));
            }
        }
        return Some(login);
    }
    for key in ["sasl.username", "sasl.password"] {
        if !view.is_given(key) {
            view.require(key, mechanism);
        }
    }
    Some(Login { username: view.secret("sasl.username")?, password: view.secret("sasl.password")? })
}

fn tokens(view: &mut View<'_>) -> Option<TokenSource> {
    const URL: &str = "sasl.oauthbearer.token.endpoint.url";
    const IDS: [&str; 2] = ["sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"];
    const SECRETS: [&str; 2] = ["sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"];
    if !view.is_given(URL) {
        view.require(URL, "OAUTHBEARER");
    }
    let url = view.optional(URL)?;
    if let Some(path) = url.strip_prefix("file:") {
        return Some(TokenSource::File(path.trim_start_matches("//").into()));
    }
    let config = module(view, "OAUTHBEARER", "OAuthBearerLoginModule");
    let mut credential = |keys: [&'static str; 2], option| {
        only_one(view, &keys);
        let given = view.secret(keys[0]).or_else(|| view.secret(keys[1]));
        let found = given.or_else(|| config.as_ref().map(|config| config.option(option)));
        if found.as_ref().is_none_or(|secret| secret.reveal().is_err()) && !keys.iter().any(|key| view.is_given(key)) {
            view.require(keys[0], "OAUTHBEARER with an endpoint");
        }
        found
    };
    let (client_id, client_secret) = (credential(IDS, "clientId"), credential(SECRETS, "clientSecret"));
    let in_module = || config.as_ref()?.option("scope").reveal().ok().map(|scope| scope.to_string());
    Some(TokenSource::Endpoint(TokenEndpoint {
        url,
        client_id: client_id?,
        client_secret: client_secret?,
        scope: view.optional("sasl.oauthbearer.scope").or_else(in_module),
        trust: file(view, "https.ca.location").map_or(Trust::System, Trust::Pem),
    }))
}

fn kerberos(view: &mut View<'_>) -> KerberosConfig {
    const JAAS: &str = "sasl.jaas.config";
    const KEYTAB: &str = "sasl.kerberos.keytab";
    for key in ["sasl.username", "sasl.password"].into_iter().filter(|key| view.is_given(key)).collect::<Vec<_>>() {
        view.report(key, Problem::Needless { why: "Kerberos takes no user and password" });
    }
    only_one(view, &[JAAS, "sasl.kerberos.principal"]);
    only_one(view, &[JAAS, KEYTAB]);
    let config = module(view, "GSSAPI", "Krb5LoginModule");
    let option = |name| Some(config.as_ref()?.option(name).reveal().ok()?.to_string());
    if option("ticketCache").is_some() {
        let remedy = "name the credential cache in the variable KRB5CCNAME of the process";
        let error = jaas::JaasError::NotFollowed { option: "ticketCache", remedy };
        view.report(JAAS, Problem::Secret(error.into()));
    }
    let uses_keytab = option("useKeyTab").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let in_module = option("keyTab").filter(|_| uses_keytab);
    if uses_keytab && in_module.is_none() {
        view.report(JAAS, Problem::Secret(jaas::JaasError::Missing("keyTab").into()));
    }
    let named = option("serviceName").filter(|_| view.given_keys("sasl.kerberos.service.name").next().is_none());
    KerberosConfig {
        service: named.or_else(|| view.text("sasl.kerberos.service.name")).unwrap_or_default(),
        principal: view.optional("sasl.kerberos.principal").or_else(|| option("principal")),
        keytab: view.optional(KEYTAB).or(in_module).map(Into::into),
    }
}
