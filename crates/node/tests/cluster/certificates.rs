//! Clusters whose members prove themselves by certificates.

use std::fs;
use std::time::{Duration, SystemTime};

use algorithms::catalog;
use client::{Holder, Safety};
use testkit::certificates::{Authority, CA, CA_KEY, VALID};
use testkit::{Live, Plan, done, refused, stdout, until};

const ALL: &[u32] = &[1, 2, 3];
const DAY: Duration = Duration::from_hours(24);

fn plan(safety: Safety) -> Plan {
    Plan { safety, tls: true, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// Gives this member another certificate; `of` is whose it is.
fn reissue(live: &Live, authority: &Authority, id: u32, of: Holder, until: SystemTime) {
    let [certificate, key] = ["pem", "key"].map(|kind| live.cluster.directory().join(format!("n{id}.{kind}")));
    authority.write(of, until, &certificate, &key).unwrap();
}

fn own_authority(live: &Live) -> Authority {
    Authority::open(&live.cluster.directory().join(CA_KEY)).unwrap()
}

/// Waits until a member's log has all of these.
async fn logged(live: &Live, id: u32, parts: &[&str]) {
    let has = || {
        let log = live.cluster.log_tail(id, 200);
        let line = |line: &str| parts.iter().all(|part| line.contains(part));
        log.lines().any(line).then_some(())
    };
    let in_time = tokio::time::timeout(testkit::PATIENCE, until("a line of the log", has)).await;
    assert!(in_time.is_ok(), "{parts:?} at {id}\n{}", live.logs());
}

#[tokio::test]
async fn members_with_certificates_elect_and_clients_may_do_what_their_certificates_say() {
    for safety in Safety::ALL {
        let mut live = Live::start(&plan(safety));
        live.agreement_on(3, ALL).await;
        let run = async |name: &str, command: &[&str]| {
            let file = live.cluster.directory().join(format!("{name}.pem"));
            live.ctl(&[&["--certificate", file.to_str().unwrap(), "--member-timeout", "5s"], command].concat()).await
        };
        done(&run("reader", &["leader"]).await);
        refused(&run("reader", &["elect"]).await, 8, &["needs the access of an operator", "of a reader"]);
        done(&run("operator", &["elect"]).await);
        // A member's certificate is as good as an operator's.
        done(&run("n1", &["elect"]).await);
        let (status, _) = live.json(&["status"]).await;
        let expires = status["members"][0]["expires_ms"].as_u64().unwrap();
        let in_a_year = SystemTime::now() + VALID;
        let in_a_year = in_a_year.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(expires <= in_a_year && expires > in_a_year - DAY.as_millis() as u64, "{status}");
        live.cluster.stop().await;
    }
}

/// A secret and a certificate do not meet: both sides say what is missing.
#[tokio::test]
async fn a_client_with_a_secret_is_refused_and_told_why() {
    let mut live = Live::start(&plan(Safety::Quorum));
    live.agreement_on(3, ALL).await;
    let secret = live.cluster.directory().join("some.secret");
    testkit::write_secret(&secret, "0123456789abcdef").unwrap();
    let output = live.ctl(&["--secret-file", secret.to_str().unwrap(), "--member-timeout", "5s", "leader"]).await;
    refused(&output, 8, &["this cluster uses certificates"]);
    logged(&live, 1, &["connection refused", "this cluster uses certificates"]).await;
    let mut other = Live::start(&Plan { tls: false, ..plan(Safety::Quorum) });
    other.agreement_on(3, ALL).await;
    let operator = live.cluster.directory().join("operator.pem");
    let output = other.ctl(&["--certificate", operator.to_str().unwrap(), "--member-timeout", "5s", "leader"]).await;
    refused(&output, 8, &["this cluster uses no certificates"]);
    logged(&other, 1, &["connection refused", "this cluster uses no certificates"]).await;
}

#[tokio::test]
async fn an_expired_certificate_of_a_member_is_refused_with_a_sentence_on_both_sides_and_warned_of() {
    let mut live = Live::start(&plan(Safety::Quorum));
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    live.kill(1).await;
    reissue(&live, &own_authority(&live), 1, Holder::Member(1), SystemTime::now() - DAY);
    live.cluster.start(1).unwrap();
    logged(&live, 1, &["certificate or its authority has expired", "ctl secret rotate"]).await;
    // Member 1 dials and is dialled: each side logs its own words.
    logged(&live, 1, &["the far side refused this side's certificate", "it has expired"]).await;
    logged(&live, 3, &["refused the far side's certificate", "it has expired, by this side's clock"]).await;
    // A client refuses the member, and the member logs it.
    let address = live.cluster.endpoints()[0].address.clone();
    let output = live.ctl(&["--endpoints", &address, "--member-timeout", "5s", "leader"]).await;
    refused(&output, 8, &["refused the far side's certificate: it has expired"]);
    // A new certificate and a signal: the member is back without a restart.
    reissue(&live, &own_authority(&live), 1, Holder::Member(1), SystemTime::now() + VALID);
    live.cluster.signal(1, rustix::process::Signal::HUP).unwrap();
    live.agreement_on(3, ALL).await;
}

#[tokio::test]
async fn an_expired_and_a_foreign_certificate_of_a_client_are_refused_with_a_sentence_on_both_sides() {
    let mut live = Live::start(&plan(Safety::Quorum));
    live.agreement_on(3, ALL).await;
    let directory = live.cluster.directory();
    let [certificate, key] = ["late.pem", "late.key"].map(|name| directory.join(name));
    own_authority(&live).write(Holder::Operator, SystemTime::now() - DAY, &certificate, &key).unwrap();
    // Another member each time: equal refusals are logged at a limited rate.
    let addresses: Vec<String> = live.cluster.endpoints().into_iter().map(|endpoint| endpoint.address).collect();
    let ask = ["--member-timeout", "5s", "leader", "--endpoints"];
    let show = ["--certificate", certificate.to_str().unwrap()];
    refused(
        &live.ctl(&[&show[..], &ask, &[&addresses[0]]].concat()).await,
        8,
        &["the far side refused this side's certificate: it has expired"],
    );
    logged(&live, 1, &["connection refused", "refused the far side's certificate", "it has expired"]).await;
    // Of another authority, which the client trusts beside the cluster's own.
    let other = Authority::new().unwrap();
    let elsewhere = testkit::Scratch::new("foreign").unwrap();
    let ca = fs::read_to_string(directory.join(CA)).unwrap() + &other.certificate().unwrap();
    fs::write(elsewhere.path().join(CA), ca).unwrap();
    let [certificate, key] = ["operator.pem", "operator.key"].map(|name| elsewhere.path().join(name));
    other.write(Holder::Operator, SystemTime::now() + DAY, &certificate, &key).unwrap();
    let config = fs::read_to_string(live.cluster.config()).unwrap();
    let foreign = elsewhere.path().join("cluster.toml");
    fs::write(&foreign, config).unwrap();
    let foreign = ["--config", foreign.to_str().unwrap()];
    let output = testkit::ctl(&[&foreign[..], &ask, &[&addresses[1]]].concat()).await;
    refused(&output, 8, &["the far side refused this side's certificate: no authority that the refusing side trusts"]);
    logged(&live, 2, &["connection refused", "no authority that this side trusts has signed it"]).await;
    // A client that does not trust the members refuses them, and they are told.
    fs::write(elsewhere.path().join(CA), other.certificate().unwrap()).unwrap();
    let output = testkit::ctl(&[&foreign[..], &ask, &[&addresses[2]]].concat()).await;
    refused(&output, 8, &["refused the far side's certificate: no authority that this side trusts has signed it"]);
    logged(&live, 3, &["connection refused", "the far side refused this side's certificate"]).await;
}

/// Another program with that certificate is refused by the other members: `net_certificate_tests` of the transport.
#[tokio::test]
async fn no_member_starts_with_the_certificate_of_another_one() {
    let mut live = Live::start(&plan(Safety::Quorum));
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    live.kill(2).await;
    let directory = live.cluster.directory().to_owned();
    for kind in ["pem", "key"] {
        fs::copy(directory.join(format!("n1.{kind}")), directory.join(format!("n2.{kind}"))).unwrap();
    }
    live.cluster.start(2).unwrap();
    let status = live.cluster.reap(2).await.unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(live.cluster.log_tail(2, 5).contains("is the certificate of n1, not of n2"), "{}", live.logs());
}

#[tokio::test]
async fn a_certificate_that_ends_soon_is_in_status_and_explained() {
    let mut live = Live::start(&plan(Safety::Quorum));
    live.agreement_on(3, ALL).await;
    reissue(&live, &own_authority(&live), 2, Holder::Member(2), SystemTime::now() + 10 * DAY + DAY / 2);
    live.cluster.signal(2, rustix::process::Signal::HUP).unwrap();
    logged(&live, 2, &["expires in 10 days", "ctl secret rotate"]).await;
    let status = live.ctl(&["status", "--member-timeout", "5s"]).await;
    assert!(stdout(&status).contains("CERTIFICATE of 2 expires in 10 days"), "{}", stdout(&status));
    let explained = live.ctl(&["explain", "--member-timeout", "5s"]).await;
    assert!(stdout(&explained).contains("The certificate of 2 expires in 10 days"), "{}", stdout(&explained));
}

/// Keys are as secret as secrets, and authorities are not for others to change.
#[tokio::test]
async fn a_key_that_others_can_read_starts_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut live = Live::prepared(&plan(Safety::Quorum), "");
    for (file, mode, says) in
        [("n1.key", 0o644, "mode 0644"), (CA, 0o666, "may change"), ("n1.pem", 0o664, "may change")]
    {
        let path = live.cluster.directory().join(file);
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        live.cluster.start(1).unwrap();
        let ended = tokio::time::timeout(testkit::PATIENCE, live.cluster.reap(1)).await;
        let ended = ended.unwrap_or_else(|_| panic!("it runs with {file} as it is: {}", live.logs()));
        assert_eq!(ended.unwrap().code(), Some(2), "{file}");
        assert!(live.cluster.log_tail(1, 5).contains(says), "{file}: {}", live.logs());
        fs::set_permissions(&path, before).unwrap();
    }
}
