//! Answers that are encoded by whoever makes them, for calls where the way through owned messages would cost more than
//! the answer itself.
//!
//! ```
//! use pointsman_proto::{broker::v1::RouteResponse, encoded::{Encoded, Part}, positions};
//! use prost::Message;
//!
//! let rest = RouteResponse { request_id: 7, ..RouteResponse::default() };
//! let part = Part { node: ["local", "n1"], segments: &[3, 1], ..Part::default() };
//! let answer = RouteResponse::decode(Encoded::route(&rest, [part]).as_bytes())?;
//! assert_eq!((answer.request_id, answer.parts[0].node.as_str()), (7, "local/n1"));
//! assert_eq!(positions(&answer.parts[0].segments).collect::<Vec<_>>(), [3, 1]);
//! # Ok::<(), prost::DecodeError>(())
//! ```

use std::marker::PhantomData;

use prost::{
    Message,
    encoding::{WireType, encode_varint, encoded_len_varint, int32},
};
use tonic::{
    Status,
    codec::{Codec, EncodeBuf, Encoder},
};
use tonic_prost::ProstDecoder;

use crate::{broker::v1::RouteResponse, positions::put_positions};

/// The server of `Routing` that sends encoded answers.
#[allow(
    missing_docs,
    missing_debug_implementations,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod routing {
    include!(concat!(env!("OUT_DIR"), "/pointsman.broker.v1.Routing.rs"));
}

pub use routing::routing_server;

/// A message that is encoded already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded(Vec<u8>);

/// One part of an encoded [`RouteResponse`]. The fields are those of [`RoutedPart`](crate::broker::v1::RoutedPart).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the proto file holds the documentation")]
pub struct Part<'a> {
    /// Cluster and name.
    pub node: [&'a str; 2],
    pub url: &'a str,
    pub pool: Option<i32>,
    pub segments: &'a [u32],
    pub optional_segments: &'a [u32],
    pub fail_open_segments: Vec<u32>,
    pub names: Vec<&'a str>,
}

impl Encoded {
    /// A [`RouteResponse`] with these parts behind those of `rest`, which is all else of it. `parts` are gone through
    /// twice, first for the length of the message.
    pub fn route<'a>(
        rest: &RouteResponse,
        parts: impl IntoIterator<Item = Part<'a>, IntoIter: Clone>,
    ) -> Self {
        let parts = parts.into_iter();
        let length = |part: Part<'_>| field_len(part.encoded_len());
        let mut message = Vec::with_capacity(rest.encoded_len() + parts.clone().map(length).sum::<usize>());
        rest.encode_raw(&mut message);
        for part in parts {
            put_head(3, part.encoded_len(), &mut message);
            part.put(&mut message);
        }
        Self(message)
    }

    /// The message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Part<'_> {
    /// What [`put`](Self::put) appends, in bytes.
    fn encoded_len(&self) -> usize {
        let [cluster, name] = self.node;
        let lists = [self.segments, self.optional_segments, &self.fail_open_segments];
        let lists = lists.iter().filter(|list| !list.is_empty()).map(|list| field_len(list.len() * 4));
        let names = self.names.iter().map(|name| field_len(name.len()));
        field_len(cluster.len() + 1 + name.len())
            + field_len(self.url.len())
            + self.pool.map_or(0, |pool| int32::encoded_len(3, &pool))
            + lists.sum::<usize>()
            + names.sum::<usize>()
    }

    fn put(&self, message: &mut Vec<u8>) {
        let [cluster, name] = self.node;
        put_head(1, cluster.len() + 1 + name.len(), message);
        message.extend_from_slice(cluster.as_bytes());
        message.push(b'/');
        message.extend_from_slice(name.as_bytes());
        put(2, self.url, message);
        if let Some(pool) = &self.pool {
            int32::encode(3, pool, message);
        }
        put_list(4, self.segments, message);
        put_list(5, self.optional_segments, message);
        put_list(6, &self.fail_open_segments, message);
        self.names.iter().for_each(|name| put(7, name, message));
    }
}

/// Appends a text.
fn put(field: u8, text: &str, message: &mut Vec<u8>) {
    put_head(field, text.len(), message);
    message.extend_from_slice(text.as_bytes());
}

/// Appends a list of positions; none if it is empty.
fn put_list(field: u8, list: &[u32], message: &mut Vec<u8>) {
    if !list.is_empty() {
        put_head(field, list.len() * 4, message);
        put_positions(list, message);
    }
}

/// Appends what stands before a field that has a length. `field` is below 16, so that its key is one byte.
fn put_head(field: u8, length: usize, message: &mut Vec<u8>) {
    let key = field << 3 | WireType::LengthDelimited as u8;
    match u8::try_from(length) {
        Ok(short @ ..0x80) => message.extend_from_slice(&[key, short]),
        _ => {
            message.push(key);
            encode_varint(length as u64, message);
        }
    }
}

/// Bytes of a field that has this length, with what stands before it.
fn field_len(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// Reads requests, and writes encoded answers.
#[derive(Clone, Copy, Debug)]
pub struct EncodedCodec<Q>(PhantomData<Q>);

impl<Q> Default for EncodedCodec<Q> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q: Message + Default + 'static> Codec for EncodedCodec<Q> {
    type Encode = Encoded;
    type Decode = Q;
    type Encoder = Self;
    type Decoder = ProstDecoder<Q>;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> ProstDecoder<Q> {
        ProstDecoder::default()
    }
}

impl<Q> Encoder for EncodedCodec<Q> {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, Encoded(message): Encoded, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &message);
        Ok(())
    }
}
