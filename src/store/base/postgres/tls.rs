//! TLS to a server, by the same library as the server's own. It must not fall back to plaintext.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

use crate::env::files;

/// How a server proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// No TLS.
    Disabled,
    /// Not at all: the connection is encrypted, and the server may be another.
    None,
    /// By a certificate of a known authority, for any host.
    Authority,
    /// By a certificate of a known authority for this host.
    Full,
}

/// Settings of TLS in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsSettings {
    pub(super) verification: Verification,
    /// Files of the authorities, and of the client's own certificate and key.
    pub(super) authorities: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

/// Makes TLS sessions; clones share the settings.
#[derive(Clone)]
pub(super) struct MakeTls(Arc<ClientConfig>);

/// A certificate check that leaves out the host, or everything.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl MakeTls {
    pub(super) fn new(settings: &TlsSettings) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let roots = match &settings.authorities {
            Some(path) => read_authorities(path)?,
            None => RootCertStore::empty(),
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let verifier = |roots: RootCertStore| {
            let builder =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            builder.build().map_err(|error| format!("sslrootcert: {error}"))
        };
        let builder = match settings.verification {
            Verification::Full if settings.authorities.is_none() => {
                use rustls_platform_verifier::BuilderVerifierExt as _;
                builder.with_platform_verifier().map_err(|error| error.to_string())?
            }
            Verification::Full => builder.with_root_certificates(roots),
            Verification::Authority => {
                let authority = Some(verifier(roots)?);
                let lenient = Lenient { provider: Arc::clone(&provider), authority };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
            }
            Verification::None | Verification::Disabled => {
                let lenient = Lenient { provider: Arc::clone(&provider), authority: None };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
            }
        };
        let config = match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => {
                let chain = read_certificates(certificate)?;
                let key = files::read_private(key.as_ref(), PEM_BYTES_MAX)
                    .map_err(|error| format!("sslkey {key}: {error}"))?;
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|error| format!("sslkey: {error}"))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }
}

/// Maximum bytes of a PEM file.
const PEM_BYTES_MAX: u64 = 1 << 20;

fn read_certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes =
        files::read(path.as_ref(), PEM_BYTES_MAX).map_err(|error| format!("{path}: {error}"))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    read.map_err(|error| format!("{path}: {error}"))
}

fn read_authorities(path: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| format!("sslrootcert {path}: {error}"))?;
    }
    Ok(roots)
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        let checked = authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match checked {
            Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::NotValidForName
                | rustls::CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A TLS session over a stream.
pub(super) struct TlsSession<S>(tokio_rustls::client::TlsStream<S>);

impl<S> MakeTlsConnect<S> for MakeTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = TlsSession<S>;
    type TlsConnect = ConnectTls;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<ConnectTls, Self::Error> {
        // A path of a socket is no name; no TLS is made there.
        let name = ServerName::try_from(domain.to_owned());
        let name = name.or_else(|_| ServerName::try_from("localhost".to_owned()))?;
        Ok(ConnectTls { config: Arc::clone(&self.0), name })
    }
}

/// Makes one TLS session.
pub(super) struct ConnectTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for ConnectTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = TlsSession<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TlsSession<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        let connector = tokio_rustls::TlsConnector::from(self.config);
        async move { connector.connect(self.name, stream).await.map(TlsSession) }.boxed()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for TlsSession<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsSession<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsSession<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
