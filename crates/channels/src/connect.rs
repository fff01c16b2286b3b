//! How a byte stream to a node is made: a seam, so that the whole stack runs in a simulated network.

use std::{
    fmt::Debug,
    io,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    runtime::{self, Handle, Runtime},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use url::Url;

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Makes byte streams. A deadline is the caller's.
pub trait Connect: Send + Sync + Debug + 'static {
    /// A new stream to the host and port of `url`.
    fn connect(&self, url: &Url) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;

    /// The runtime that drives the streams; `None`: that of the call which needs one.
    fn driver(&self) -> Option<Handle> {
        None
    }
}

/// Plain TCP with `TCP_NODELAY`: small messages go out at once.
///
/// One thread of its own drives all connections of a process. Calls come from tasks that compute for long; on their
/// runtime the answer to a ping would lie unread beyond the keep-alive's limit, and healthy peers would be taken for
/// dead.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnect;

impl Connect for TcpConnect {
    fn connect(&self, url: &Url) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let target = target(url);
        Box::pin(async move {
            let (host, port) = target?;
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }

    fn driver(&self) -> Option<Handle> {
        DRIVER.as_ref().map(|runtime| runtime.handle().clone())
    }
}

fn target(url: &Url) -> io::Result<(String, u16)> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("'{url}' {why}"));
    if url.scheme() != "http" {
        return Err(refuse("is not an http:// address; TLS is not supported"));
    }
    let host = url.host_str().ok_or_else(|| refuse("names no host"))?;
    let port = url.port_or_known_default().ok_or_else(|| refuse("names no port"))?;
    // An IPv6 address stands in brackets in a URL and without them everywhere else.
    Ok((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

static DRIVER: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let built =
        runtime::Builder::new_multi_thread().worker_threads(1).thread_name("channels").enable_all().build();
    built.inspect_err(|error| tracing::warn!(%error, "channels are driven by the callers' runtime")).ok()
});

/// A stream that ends for both sides as soon as its token is cancelled.
pub(crate) struct Closable {
    io: Box<dyn Io>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Closable {
    pub(crate) fn new(io: Box<dyn Io>, closed: CancellationToken) -> Self {
        Self { io, closed: Box::pin(closed.cancelled_owned()) }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.closed.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the channel was closed"))
            }
        }
    }
}

impl AsyncRead for Closable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl AsyncWrite for Closable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        let read = |text: &str| target(&Url::parse(text).unwrap());
        assert_eq!(read("http://127.0.0.1:8190").unwrap(), ("127.0.0.1".to_owned(), 8190));
        assert_eq!(read("http://[::1]:8190/").unwrap(), ("::1".to_owned(), 8190));
        assert_eq!(read("http://n1").unwrap(), ("n1".to_owned(), 80));
        assert!(read("https://n1:1").unwrap_err().to_string().contains("TLS is not supported"));
    }
}
