//! TLS towards upstreams: which roots are trusted. Certificates are always
//! verified; there is no way to switch that off.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256};

use crate::rules::origin::Origin;

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A CA file could not be read.
    #[error("the CA file {path} cannot be read: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A CA file holds no certificate.
    #[error("the CA file {path} holds no certificate in PEM form that can be trusted")]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// The TLS library refused its settings.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// Certificates that one destination trusts beside the system's roots.
#[derive(Debug)]
pub struct ExtraCa {
    certificates: Vec<CertificateDer<'static>>,
    fingerprint: [u8; 32],
}

impl ExtraCa {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// When it cannot be read, or holds no certificate.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        let pem = std::fs::read(path).map_err(|source| TlsError::Read {
            path: path.to_owned(),
            source,
        })?;
        let empty = || TlsError::Empty {
            path: path.to_owned(),
        };
        let certificates = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| empty())?;
        let mut probe = RootCertStore::empty();
        for certificate in &certificates {
            probe.add(certificate.clone()).map_err(|_| empty())?;
        }
        if probe.is_empty() {
            return Err(empty());
        }
        let mut hash = Sha256::new();
        for certificate in &certificates {
            hash.update(certificate);
        }
        Ok(Self {
            certificates,
            fingerprint: hash.finalize().into(),
        })
    }

    /// Which certificates these are: connections made under one set are not
    /// used under another.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }
}

/// One client configuration for each set of roots.
pub(super) struct Clients {
    native: RootCertStore,
    made: Mutex<HashMap<Option<[u8; 32]>, Arc<ClientConfig>>>,
}

impl Clients {
    /// Reads the system's roots. One that cannot be read is left out: what it
    /// would have vouched for is then not trusted.
    pub(super) fn new() -> Self {
        let mut native = RootCertStore::empty();
        let (_, ignored) =
            native.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        tracing::debug!(roots = native.len(), ignored, "native roots");
        Self {
            native,
            made: Mutex::default(),
        }
    }

    /// The configuration for a destination.
    pub(super) fn config(&self, extra: Option<&ExtraCa>) -> Result<Arc<ClientConfig>, TlsError> {
        let key = extra.map(ExtraCa::fingerprint);
        // Held over no await; a poisoned map still holds whole entries.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = made.get(&key) {
            return Ok(config.clone());
        }
        let mut roots = self.native.clone();
        for certificate in extra.iter().flat_map(|extra| &extra.certificates) {
            roots.add(certificate.clone())?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        made.insert(key, config.clone());
        Ok(config)
    }
}

/// The name that a certificate must carry.
pub(super) fn server_name(origin: &Origin) -> Option<ServerName<'static>> {
    ServerName::try_from(origin.host.trim_end_matches('.').to_owned()).ok()
}
