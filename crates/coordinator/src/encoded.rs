//! Calls that are answered by a stream of messages which are encoded as they are made.
//!
//! tonic would encode each into a buffer of its stream, which stays as large as the largest of them for as long as the stream
//! lives: for a hundred nodes and ten brokers that is more than all that the coordinator knows. Here a message is bytes
//! that go when they are sent, and brokers share those of a snapshot.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    vec,
};

use bytes::{BufMut as _, Bytes};
use futures::Stream;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use http_body::Frame;
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};
use tonic::{Status, Streaming, body::Body};
use tonic_prost::ProstDecoder;

/// Bytes before each message: whether it is compressed, which it never is, and its length.
const HEADER: usize = 5;

/// A message with what stands before it in a stream, in pieces that may be shared.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pieces: Vec<Bytes>,
    /// Bytes of the message.
    length: usize,
}

impl Encoded {
    /// A message of which nothing is encoded yet.
    pub(crate) fn new(message: &impl Message) -> Self {
        let length = message.encoded_len();
        let mut bytes = with_header(length, length);
        message.encode_raw(&mut bytes);
        Self { pieces: vec![bytes.into()], length }
    }

    /// A message that has the encoded message `value` as its field `field`, besides what `rest` says.
    pub(crate) fn around(field: u32, value: Bytes, rest: &impl Message) -> Self {
        let own = key_len(field) + encoded_len_varint(value.len() as u64) + rest.encoded_len();
        let length = own + value.len();
        let mut head = with_header(length, own);
        rest.encode_raw(&mut head);
        encode_key(field, WireType::LengthDelimited, &mut head);
        encode_varint(value.len() as u64, &mut head);
        Self { pieces: vec![head.into(), value], length }
    }
}

/// The header of a message, with room for so many bytes behind it.
fn with_header(length: usize, room: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + room);
    bytes.put_u8(0);
    // Longer ones are over every limit, and not sent.
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes
}

/// The messages of a request of at most `limit` bytes each.
pub(crate) fn messages<M: Message + Default + 'static>(
    request: http::Request<Body>,
    limit: usize,
) -> Streaming<M> {
    Streaming::new_request(ProstDecoder::default(), request.into_body(), None, Some(limit))
}

/// The only message of a request.
///
/// # Errors
/// `internal` when there is none, and why it cannot be read.
pub(crate) async fn message<M: Message + Default + 'static>(
    request: http::Request<Body>,
    limit: usize,
) -> Result<M, Status> {
    messages(request, limit).message().await?.ok_or_else(|| Status::internal("a request without a message"))
}

/// The answer of a call: a stream of messages of at most `limit` bytes each, or why there is none.
pub(crate) fn answer<S>(answers: Result<S, Status>, limit: usize) -> http::Response<Body>
where
    S: Stream<Item = Result<Encoded, Status>> + Send + Unpin + 'static,
{
    match answers {
        Ok(answers) => {
            let body = Answers { answers, limit, pieces: Vec::new().into_iter(), ended: false };
            let mut response = http::Response::new(Body::new(body));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            response
        }
        Err(status) => status.into_http(),
    }
}

/// A stream of messages, and how it ended, as the body of an answer.
struct Answers<S> {
    answers: S,
    limit: usize,
    /// What is left of the message that is being sent.
    pieces: vec::IntoIter<Bytes>,
    ended: bool,
}

impl<S> Answers<S> {
    /// How the stream ended, as its last frame.
    fn end(&mut self, status: &Status) -> Result<Frame<Bytes>, Status> {
        self.ended = true;
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }
}

impl<S> http_body::Body for Answers<S>
where
    S: Stream<Item = Result<Encoded, Status>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let status = match ready!(Pin::new(&mut self.answers).poll_next(context)) {
                Some(Ok(message)) if message.length <= self.limit => {
                    self.pieces = message.pieces.into_iter();
                    continue;
                }
                Some(Ok(message)) => Status::out_of_range(format!(
                    "a message of {} bytes is over the limit of {}",
                    message.length, self.limit
                )),
                Some(Err(status)) => status,
                None => Status::ok(""),
            };
            return Poll::Ready(Some(self.end(&status)));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.pieces.as_slice().is_empty()
    }
}
