//! TLS towards boxes: the listener's certificate and key.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::listen::ListenError;

/// Where the listener's certificate chain and key are, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate and those that vouch for it.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

pub(super) fn acceptor(settings: &TlsSettings) -> Result<TlsAcceptor, ListenError> {
    let broken = |what: &'static str, reason: &dyn std::fmt::Display| ListenError::Tls {
        what,
        reason: reason.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(&settings.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| broken("cert", &error))?;
    if chain.is_empty() {
        return Err(broken("cert", &"it holds no certificate in PEM form"));
    }
    let key = PrivateKeyDer::from_pem_file(&settings.key).map_err(|error| broken("key", &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| broken("cert or key", &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
