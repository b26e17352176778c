//! Secrets planted in every place appear in no output, neither as they are nor in base64, whether things go well or wrong.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster::load::{Load, produce};
use cluster::{free_port, http_get};

use super::clusters::{AUDITOR, PASSWORD, USER, secured, topic};
use super::tokens::CLIENT_SECRET;
use crate::bridge::await_all;

/// Everything that a worker or a verb has said.
fn assert_clean(what: &str, said: &str, secrets: &[String]) {
    assert!(!said.is_empty(), "{what} is silent: the test looks in the wrong place");
    for secret in secrets {
        let around = said.find(secret.as_str()).map(|at| &said[at.saturating_sub(60)..at]);
        assert_eq!(around, None, "{what} shows a secret");
    }
}

/// The forms in which a secret could be shown.
fn forms(secret: &str) -> [String; 2] {
    [secret.to_owned(), STANDARD.encode(secret)]
}

fn sharebridge(verb: &str, file: &std::path::Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sharebridge")).args([verb, "--config"]).arg(file).output().unwrap();
    format!("{verb}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn c23_no_output_shows_a_secret() {
    let secured = secured();
    let topic = topic(&secured, "leak");
    let key = std::fs::read_to_string(secured.path("key.pem")).unwrap();
    let chain = std::fs::read_to_string(secured.path("cert.pem")).unwrap();
    let lines = key.lines().filter(|line| !line.starts_with("---")).map(str::to_owned);
    let both = [format!("\0{USER}\0{PASSWORD}"), format!("{USER}:{CLIENT_SECRET}"), format!("{USER}:wrong-horse")];
    let secrets: Vec<String> = [PASSWORD, CLIENT_SECRET, "wrong-horse", "store-secret", "spare-secret"]
        .into_iter()
        .chain(both.iter().map(String::as_str))
        .flat_map(forms)
        .chain(lines)
        .collect();
    let trace = "bridge.log.level = \"trace\"";
    let password = secured.write("leaked", PASSWORD);
    let well = secured
        .flow(&topic)
        .with(trace)
        .with(&format!("clusters.primary.sasl.password = \"${{file:{}}}\"", password.display()))
        .without("clusters.dr.ssl.keystore.location")
        .with(&format!("clusters.dr.ssl.keystore.certificate.chain = '''\n{chain}'''"))
        .with(&format!("clusters.dr.ssl.keystore.key = '''\n{key}'''"));
    let url = format!("http://127.0.0.1:{}/token", secured.tokens.port);
    let ill = secured.flow(&topic).with(trace);
    let ill = ill.without("clusters.primary.sasl.username").without("clusters.primary.sasl.password").with_all(&[
        "clusters.primary.sasl.mechanism = \"OAUTHBEARER\"".to_owned(),
        format!("clusters.primary.sasl.oauthbearer.token.endpoint.url = \"{url}\""),
        "clusters.primary.sasl.oauthbearer.scope = \"a b\"".to_owned(),
        format!(
            "clusters.primary.sasl.jaas.config = 'x.OAuthBearerLoginModule required clientId=\"{USER}\" clientSecret=\"wrong-horse\";'"
        ),
        "clusters.dr.ssl.key.password = \"spare-secret\"".to_owned(),
    ]);
    let mut workers = [well.start(), ill.start()];
    produce(secured.pair.source.bootstrap(), &topic, &Load::of(1_000)).unwrap();
    await_all(&secured.pair.target, &topic, 1_000);
    workers[1].await_trouble(&["OAUTHBEARER", "401"]);
    // librdkafka reaches the same listeners.
    let auditor = secured.authority.issue(AUDITOR, &[]).unwrap();
    let identity = secured.write("auditor.pem", &format!("{}{}", auditor.chain, auditor.private_key));
    let audit = secured.flow(&topic).with(&format!("clusters.dr.ssl.keystore.location = {identity:?}"));
    let verified = sharebridge("verify", &secured.write("audit.toml", &audit.text()));
    assert!(verified.contains("verdict: complete"), "{verified}");
    for worker in &mut workers {
        assert_clean("/ready", &format!("{:?}", worker.ready()), &secrets);
        assert_clean("/metrics", &worker.metrics(), &secrets);
        let file = worker.process.config();
        for verb in ["validate", "verify"] {
            assert_clean(verb, &sharebridge(verb, &file), &secrets);
        }
        worker.shut_down();
        let log = worker.process.log();
        assert_clean("the log", &log, &secrets);
    }
}

#[test]
fn c23_secrets_of_the_environment_and_of_credentials_appear_nowhere() {
    let secured = secured();
    let topic = topic(&secured, "leak");
    let secrets: Vec<String> = [PASSWORD, "store-secret"].into_iter().flat_map(forms).collect();
    secured.write("truststore-password", "store-secret");
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let flow = secured
        .flow(&topic)
        .with("bridge.log.level = \"trace\"")
        .with(&format!("bridge.status.address = \"{address}\""))
        .with("clusters.primary.sasl.password = \"${env:PLANTED}\"")
        .with(&format!("clusters.primary.ssl.truststore.location = {:?}", secured.path("ca.p12")))
        .with("clusters.primary.ssl.truststore.type = \"PKCS12\"")
        .with("clusters.primary.ssl.truststore.password = \"${credentials:truststore-password}\"");
    let (file, log) = (secured.write("elsewhere.toml", &flow.text()), secured.path("elsewhere.log"));
    let verb = |verb: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sharebridge"));
        command.args([verb, "--config"]).arg(&file).env("CREDENTIALS_DIRECTORY", secured.folder());
        command
    };
    let refused = verb("validate").env_remove("PLANTED").output().unwrap();
    assert_eq!(refused.status.code(), Some(78));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("sasl.password") && said.contains("PLANTED"), "{said}");
    assert_clean("validate", &said, &secrets);
    for name in ["validate", "check", "plan"] {
        let output = verb(name).env("PLANTED", PASSWORD).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        assert_clean(name, &said, &secrets);
    }

    let output = std::fs::File::create(&log).unwrap();
    let mut run = verb("run");
    run.env("PLANTED", PASSWORD).stdout(output.try_clone().unwrap()).stderr(output);
    let mut worker = run.spawn().unwrap();
    produce(secured.pair.source.bootstrap(), &topic, &Load::of(1_000)).unwrap();
    await_all(&secured.pair.target, &topic, 1_000);
    let address = address.parse().unwrap();
    let pages = ["/ready", "/metrics", "/status"].map(|page| http_get(address, page).unwrap().1);
    worker.kill().unwrap();
    worker.wait().unwrap();
    pages.iter().for_each(|page| assert_clean("a page", page, &secrets));
    assert_clean("the log", &std::fs::read_to_string(&log).unwrap(), &secrets);
}
