//! The server's certificate and its key, read again when they change, so that a renewal needs no
//! restart. It must not offer weak versions: TLS 1.2 and 1.3 by rustls, with ring.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{
    FileError,
    watched::{self, Privacy, Watched},
};

const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate chain and its key.
pub struct Certificates {
    watched: Watched<ServerConfig>,
}

impl Certificates {
    /// Reads both files, in PEM. After an invalid renewal the previous certificate stays in use.
    ///
    /// # Errors
    /// The file and its problem.
    pub fn open(certificate: PathBuf, key: PathBuf) -> Result<Self, FileError> {
        let paths = vec![certificate.clone(), key.clone()];
        let make = Box::new(move |_: Option<&Arc<_>>| load_certificates(&certificate, &key));
        Ok(Self { watched: Watched::open(paths, true, make)? })
    }

    /// Returns the configuration for the next connection.
    #[must_use]
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        self.watched.current()
    }
}

fn load_certificates(certificate: &Path, key: &Path) -> Result<ServerConfig, FileError> {
    let chain = watched::read(certificate, Privacy::Readable, FILE_BYTES_MAX)?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|_| FileError::new(certificate, "it holds no certificate in PEM"))?;
    if chain.is_empty() {
        return Err(FileError::new(certificate, "it holds no certificate in PEM"));
    }
    let private = watched::read(key, Privacy::Private, FILE_BYTES_MAX)?;
    let private = PrivateKeyDer::from_pem_slice(&private)
        .map_err(|_| FileError::new(key, "it holds no private key in PEM"))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| FileError::new(certificate, error))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| FileError::new(certificate, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
