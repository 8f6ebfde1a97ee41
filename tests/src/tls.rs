//! A certificate authority of the test's own.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// An authority that nobody trusts by default.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes one.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate"),
        }
    }

    /// Its certificate.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for loopback and its key, both as PEM.
    ///
    /// # Panics
    /// When it cannot be signed.
    #[must_use]
    pub fn issue(&self) -> (String, String) {
        let (certificate, key) = self.leaf();
        (certificate.pem(), key.serialize_pem())
    }

    /// Accepts TLS for loopback with these protocols.
    ///
    /// # Panics
    /// When the certificate cannot be used.
    #[must_use]
    pub fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let (certificate, key) = self.leaf();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate that fits its key");
        config.alpn_protocols = bytes(protocols);
        TlsAcceptor::from(Arc::new(config))
    }

    /// Connects to a host under TLS, trusting this authority alone.
    ///
    /// # Panics
    /// When the handshake fails.
    pub async fn connect(&self, address: SocketAddr, protocols: &[&str]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let der: CertificateDer<'static> = self.issuer.der().clone();
        roots.add(der).expect("a root");
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = bytes(protocols);
        let stream = TcpStream::connect(address).await.expect("the host listens");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .expect("a TLS handshake");
        TlsStream::Client(stream)
    }

    fn leaf(&self) -> (rcgen::Certificate, KeyPair) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signature");
        (certificate, key)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn bytes(protocols: &[&str]) -> Vec<Vec<u8>> {
    protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect()
}
