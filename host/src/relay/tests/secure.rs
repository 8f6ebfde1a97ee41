//! TLS towards upstreams.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::relay::tests::line::{Line, Upstream, within};
use crate::relay::tests::stage::{Broker, Script, relay};
use crate::relay::{ExtraCa, TlsError};
use crate::rules::origin::Origin;

/// A CA of our own, and a server that it vouches for.
pub(crate) struct Authority {
    pub(crate) extra: Arc<ExtraCa>,
    pub(crate) acceptor: TlsAcceptor,
}

impl Authority {
    pub(crate) fn new(alpn: &[&str], names: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, issuer.pem()).unwrap();
        Self {
            extra: Arc::new(ExtraCa::load(&path).unwrap()),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }
}

fn script(upstream: &Upstream, host: &str, extra: Option<&Authority>) -> Script {
    let origin = Origin::parse(&format!("https://{host}:{}", upstream.address().port())).unwrap();
    let mut script = Script::to(&origin);
    script.destination.extra_ca = extra.map(|authority| authority.extra.clone());
    script
}

/// Asks, and tells what was answered.
async fn ask(script: Script) -> String {
    let broker = Broker::start(relay(), script).await;
    let mut client = Line::connect(broker.address).await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    client.head().await
}

/// Answers one request in TLS, if the handshake succeeds.
async fn serve(upstream: &Upstream, authority: &Authority) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let line = upstream.accept().await;
    let Ok(mut stream) = within(authority.acceptor.accept(line.stream)).await else {
        return false;
    };
    let mut read = [0; 4096];
    // A client that does not trust us ends the connection instead.
    if !within(stream.read(&mut read))
        .await
        .is_ok_and(|read| read > 0)
    {
        return false;
    }
    stream
        .write_all(b"HTTP/1.1 204 Fine\r\n\r\n")
        .await
        .unwrap();
    within(stream.shutdown()).await.unwrap();
    true
}

#[tokio::test]
async fn an_extra_ca_is_trusted_where_it_is_set_and_nowhere_else() {
    let authority = Authority::new(&["http/1.1"], &["127.0.0.1", "localhost"]);
    let stranger = Authority::new(&["http/1.1"], &["127.0.0.1"]);
    let check = async |host: &str, extra: Option<&Authority>, trusted: bool| {
        let upstream = Upstream::start().await;
        let script = script(&upstream, host, extra);
        let (answer, served) = tokio::join!(ask(script), serve(&upstream, &authority));
        assert_eq!(served, trusted, "{host}");
        let expected = if trusted {
            "HTTP/1.1 204 "
        } else {
            "HTTP/1.1 502 "
        };
        assert!(answer.starts_with(expected), "{host}: {answer}");
    };
    check("127.0.0.1", Some(&authority), true).await;
    check("localhost", Some(&authority), true).await;
    check("127.0.0.1", None, false).await;
    check("127.0.0.1", Some(&stranger), false).await;
    // The name must be the one that was asked for.
    let other = Authority::new(&["http/1.1"], &["other.test"]);
    let upstream = Upstream::start().await;
    let asked = script(&upstream, "127.0.0.1", Some(&other));
    let (answer, served) = tokio::join!(ask(asked), serve(&upstream, &other));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(!served);
}

#[test]
fn a_ca_file_without_a_certificate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |content: &str| {
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, content).unwrap();
        assert!(
            matches!(ExtraCa::load(&path), Err(TlsError::Empty { .. })),
            "{content}"
        );
    };
    check("");
    check("not a certificate");
    check("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let missing = ExtraCa::load(&dir.path().join("missing.pem"));
    assert!(matches!(missing, Err(TlsError::Read { .. })));
}
